"""Plugin of pytest that compares the operator's table of rights with the requests of all operators of a run.

``python -m pytest -p tests.support.observing.rights_coverage tests/integration tests/regressions`` prints the table,
and fails if a verb of a right was not requested. That every request is covered is checked by each test itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from clusterstacks.operator.go_operator import EXTENSIONS
from clusterstacks.operator.rbac import ANY, READ, RIGHTS
from tests.support.observing.request_recorder import SEEN, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.operator.rbac import Right

_TEMPLATES: Final = "no class of the tests has a template of this group; it is applied like one of another"
_PROCESSES: Final = "by operators that elect a leader, which are processes of their own in the tests"
_REGISTRATION: Final = ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
NOT_USED: Final = {
    **{("bootstrap.cluster.x-k8s.io", "*", verb): _TEMPLATES for verb in (*READ, "create", "patch", "delete")},
    **{("controlplane.cluster.x-k8s.io", "*", verb): _TEMPLATES for verb in ("create", "patch", "delete")},
    **{("openstack.k-orc.cloud", "images", verb): _TEMPLATES for verb in (*READ, "create", "patch", "delete")},
    **{("coordination.k8s.io", "leases", verb): _PROCESSES for verb in ("get", "create", "patch")},
    **{(*_REGISTRATION, verb): "by operators without webhooks" for verb in ("get", "delete")},
    ("", "secrets", "patch"): "when the certificate of the webhooks is renewed",
}
"""Group, resource and verb of rights that no operator of the tests uses, and when they are used."""

_KEY = "requests-of-operators"


def covered(right: Right, resource: str, verb: str, requests: Iterable[Request]) -> int:
    """Count the different requests for which the operator has a verb of a right on a resource."""
    found = (one for one in requests if (one.group, one.verb) == (right.group, verb))
    return sum(resource in {ANY, one.resource} for one in found)


def unused(requests: Iterable[Request]) -> list[str]:
    """Give the verbs of rights that were not used, although they should be.

    ExtensionConfigs are asked for only where Cluster API serves the kind, so that depends on the order of the tests.
    """
    seen = list(requests)
    return [
        f"{verb} {resource} of group {right.group or 'core'} was not requested"
        for right in RIGHTS
        if right.group != EXTENSIONS[0]
        for resource in right.resources
        for verb in right.verbs
        if (right.group, resource, verb) not in NOT_USED and not covered(right, resource, verb, seen)
    ]


def table(requests: Iterable[Request]) -> Iterator[str]:
    """Give one line for each resource of a right: how many different requests each of its verbs covers."""
    seen = list(requests)
    for right in RIGHTS:
        for resource in right.resources:
            counts = ", ".join(f"{verb} {covered(right, resource, verb, seen)}" for verb in right.verbs)
            yield f"{right.group or 'core':36} {resource:32} {counts}"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the requests of a worker of xdist to the main process, which compares them."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEY] = [[one.group, one.resource, one.verb, one.namespace] for one in SEEN]
    elif unused(SEEN) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the requests of a worker of xdist."""
    SEEN.update(Request(*one) for one in getattr(node, "workeroutput", {}).get(_KEY, ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, and what is wrong."""
    terminalreporter.section(f"rights of the operator and {len(SEEN)} different requests")
    for line in table(SEEN):
        terminalreporter.write_line(line)
    for line in unused(SEEN):
        terminalreporter.write_line(line, red=True)
