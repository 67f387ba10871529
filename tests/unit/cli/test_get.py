from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.management_objects import served
from clusterstacks.kube.errors import KindNotServed
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path


class Bare:
    """A management cluster without our definitions and Cluster API."""

    async def resource(self, group: str, kind: str, version: str = "") -> Any:
        raise KindNotServed(f"{group} {kind} {version}")


@pytest.mark.parametrize(
    ("group", "kind", "remedy"),
    [(GROUP, Kind.CLUSTER_STACK, "csctl install"), (CLUSTER_API_GROUP, CLUSTER_KIND, "clusterctl init")],
)
async def test_message_about_a_missing_kind_says_what_to_install(group: str, kind: str, remedy: str) -> None:
    client: Any = Bare()

    with pytest.raises(KindNotServed, match=f"does not serve {kind}: install .*'{remedy}'"):
        await served(client, group, kind)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nodes",), "'nodes' is not a kind of cluster stacks (expected stacks, releases, clusters or addons)"),
        (("clusters", "-A", "-n", "x"), "--namespace cannot be combined with --all-namespaces"),
        (("clusters", "one", "-A"), "NAME cannot be combined with --all-namespaces"),
        (("clusters", "one", "-n", "x", "-l", "a=b"), "NAME cannot be combined with --selector"),
        (("clusters", "-A", "-w", "-o", "json"), "--watch cannot be combined with -o json"),
    ],
)
def test_contradicting_arguments_are_rejected(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("get", *arguments) == output.MUST_CHANGE
    assert message in capsys.readouterr().err


def test_missing_kubeconfig_is_an_error_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert call_csctl("get", "clusters") == output.MUST_CHANGE
    assert "name one with --kubeconfig or with KUBECONFIG" in capsys.readouterr().err
