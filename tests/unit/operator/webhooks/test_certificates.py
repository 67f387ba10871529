"""Validity and renewal of the webhook certificate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from clusterstacks.net.kube.pki import Authority, single_certificates, validity
from clusterstacks.operator.webhooks.certificates import create_serving, read_secret

NAMES = ("webhooks.stacks.svc",)
DAY = timedelta(days=1)


def test_certificate_is_renewed_when_a_third_of_its_lifetime_is_left() -> None:
    now = datetime.now(UTC)
    serving = create_serving(NAMES, 90 * DAY, now)

    assert not serving.is_due(NAMES, 90 * DAY, now)
    assert not serving.is_due(NAMES, 90 * DAY, now + 59 * DAY)
    assert serving.is_due(NAMES, 90 * DAY, now + 61 * DAY)
    assert serving.is_due(NAMES, 90 * DAY, now + 91 * DAY)


def test_changed_name_needs_a_new_certificate() -> None:
    now = datetime.now(UTC)

    assert create_serving(NAMES, DAY, now).is_due(("127.0.0.1",), DAY, now)
    assert not create_serving(("127.0.0.1", "localhost", "::1"), DAY, now).is_due(("::1", "127.0.0.1"), DAY, now)


def test_ca_is_kept_until_its_certificates_expire() -> None:
    now = datetime.now(UTC)
    first = create_serving(NAMES, 2 * DAY, now)
    second = create_serving(NAMES, 9 * DAY, now, first)
    third = create_serving(NAMES, 9 * DAY, now + 3 * DAY, second)

    assert len(single_certificates(second.authorities)) == 2
    assert second.authorities.endswith(first.authorities)
    assert len(single_certificates(third.authorities)) == 2
    assert first.authorities not in third.authorities


def test_secret_is_read_back_as_written() -> None:
    serving = create_serving(NAMES, DAY, datetime.now(UTC))

    assert read_secret({"data": serving.secret_data()}) == serving
    assert "PRIVATE KEY" not in repr(serving)
    assert b"PRIVATE KEY" not in serving.authorities + serving.certificate


@pytest.mark.parametrize("key", ["ca.crt", "tls.crt", "tls.key"])
@pytest.mark.parametrize("value", ["", "?", "bm9uc2Vuc2U=", None])
def test_edited_secret_is_generated_again(key: str, value: str | None) -> None:
    data = create_serving(NAMES, DAY, datetime.now(UTC)).secret_data()

    assert read_secret({"data": {**data, key: value}}) is None
    assert read_secret({}) is None


def test_key_of_another_certificate_is_rejected() -> None:
    now = datetime.now(UTC)
    one, other = (create_serving(NAMES, DAY, now).secret_data() for _ in range(2))

    assert read_secret({"data": {**one, "tls.key": other["tls.key"]}}) is None


def test_validity_is_read_from_the_certificate() -> None:
    life = validity(Authority.create("test", timedelta(hours=2)).certificate)

    assert timedelta(hours=2) <= life.until - life.since <= timedelta(hours=2, minutes=6)
