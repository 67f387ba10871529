"""Messages about refused requests."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.deliver.apply.messages import REFUSAL_CHARACTERS, explain_delete
from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube.failure_status import status_error

ABOUT = "delete Service default/web"
DENIED = 'admission webhook "keep.example.org" denied the request:'
RIGHT = (
    'services "web" is forbidden: User "u" cannot delete resource "services" in API group "" in the namespace "default"'
)
POLICY = (
    "let the policy or webhook allow it, or keep the object by its annotation clusterstack.x-k8s.io/prune: disabled"
)


@pytest.mark.regression("CASE-33")
@pytest.mark.parametrize(
    ("code", "reason", "words", "message"),
    [
        pytest.param(
            403,
            "Forbidden",
            f"{DENIED} resource\tpolicy\n\tweb\t\tkeep",
            f"403 Forbidden: {DENIED} resource policy web keep; {POLICY}",
            id="webhook",
        ),
        pytest.param(400, "Kept", "not\r\non Fridays", f"400 Kept: not on Fridays; {POLICY}", id="webhook with a code"),
        pytest.param(
            403,
            "Forbidden",
            RIGHT,
            f"403 Forbidden: {RIGHT}; allow it by a rule with apiGroups [''], resources ['services'], verbs ['delete'] "
            "in the operator's role",
            id="missing right",
        ),
        pytest.param(409, "Conflict", "the uid differs", "409 Conflict: the uid differs", id="concurrent write"),
        pytest.param(503, "", "later", "503 ServiceUnavailable: later", id="outage"),
    ],
)
def test_message_of_a_refused_delete_has_one_line_and_says_what_to_do(
    code: int, reason: str, words: str, message: str
) -> None:
    body: dict[str, Any] = {"reason": reason, "message": words}

    assert explain_delete(status_error(ABOUT, code, body)) == f"{ABOUT}: {message}"


@pytest.mark.regression("CASE-33")
def test_long_words_of_a_policy_leave_room_for_what_to_do() -> None:
    error = status_error(ABOUT, 403, {"reason": "Forbidden", "message": "no! " * 10_000})

    assert explain_delete(error).endswith(f"; {POLICY}")
    assert len(explain_delete(error)) <= REFUSAL_CHARACTERS + len(f"; {POLICY}")


def test_other_errors_are_unchanged() -> None:
    assert explain_delete(DependencyError("DeletionPending", "it waits")) == "it waits"
