"""Where the webhooks are, as the command line says it."""

from __future__ import annotations

import pytest

from clusterstacks.domain.objects import ObjectKey
from clusterstacks.operator.settings import parse_settings
from clusterstacks.webhooks.configuration import Endpoint


def test_the_webhooks_are_where_a_service_or_an_address_says() -> None:
    service = parse_settings(["--webhook-service=stacks/webhooks"])
    address = parse_settings(["--webhook-url=https://127.0.0.1:9443/", "--webhook-port=0"])

    assert (service.webhook_port, service.webhook_service) == (9443, ObjectKey("stacks", "webhooks"))
    assert (address.webhook_port, address.webhook_url) == (0, "https://127.0.0.1:9443")
    assert Endpoint(service.webhook_service).names == ("webhooks.stacks.svc",)
    assert Endpoint(url=address.webhook_url).names == ("127.0.0.1",)


@pytest.mark.parametrize(
    "argument",
    [
        "--webhook-port=x",
        "--webhook-port=65536",
        "--webhook-service=name",
        "--webhook-service=a/b/c",
        "--webhook-url=http://127.0.0.1:9443",
        "--webhook-url=https://127.0.0.1:9443/path",
        "--webhook-url=https://",
    ],
)
def test_another_place_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings([argument])

    assert argument.partition("=")[0] in capsys.readouterr().err


def test_service_and_address_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--webhook-service=a/b", "--webhook-url=https://127.0.0.1:1"])

    assert "not allowed with" in capsys.readouterr().err
