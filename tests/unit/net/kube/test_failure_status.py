"""Typed errors with the server's message, without the content of Secrets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube import errors
from clusterstacks.net.kube.errors import Conflict, FieldCause, FieldConflict, Invalid
from clusterstacks.net.kube.failure_status import (
    MAX_MESSAGE,
    WITHHELD,
    parse_status,
    reason_without_value,
    status_error,
)

ABOUT = "apply Deployment.apps kube-system/x"


def status(reason: str = "", message: str = "because", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "reason": reason, "message": message, "details": details}


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (400, status("BadRequest"), errors.ApiError),
        (401, status("Unauthorized"), errors.Unauthorized),
        (403, status("Forbidden"), errors.Forbidden),
        (404, status("NotFound", name="x"), errors.NotFound),
        (404, status("NotFound"), errors.KindNotServed),
        (404, {"message": "404 page not found"}, errors.KindNotServed),
        (409, status("AlreadyExists"), errors.AlreadyExists),
        (409, status("Conflict"), errors.Conflict),
        (410, status("Expired"), errors.Expired),
        (422, status("Invalid"), errors.Invalid),
        (429, status("TooManyRequests"), errors.TooMany),
        (500, status("InternalError"), errors.Unreachable),
        (503, {}, errors.Unreachable),
    ],
)
def test_every_failure_status_has_its_error_type(code: int, body: dict[str, Any], kind: type[Exception]) -> None:
    error = status_error(ABOUT, code, body)

    assert type(error) is kind
    assert str(error).startswith(f"{ABOUT}: {code} ")


def test_fields_of_other_managers_are_named() -> None:
    causes = [
        {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl" using apps/v1', "field": ".spec.a"},
        {"reason": "FieldManagerConflict", "message": r'conflict with "a \"b\""', "field": ".spec.b"},
        {"reason": "Other", "message": "no conflict", "field": ".spec.c"},
    ]

    error = status_error(ABOUT, 409, status("Conflict", causes=causes))

    assert isinstance(error, Conflict)
    assert error.conflicts == (FieldConflict("kubectl", ".spec.a"), FieldConflict('a "b"', ".spec.b"))
    assert str(error) == f'{ABOUT}: 409 Conflict: .spec.a is managed by kubectl, .spec.b is managed by a "b"'


def test_broken_fields_are_named() -> None:
    causes = [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.foo"}]

    error = status_error(ABOUT, 422, status("Invalid", 'Deployment.apps "x" is invalid', causes=causes))

    assert isinstance(error, Invalid)
    assert error.causes == (FieldCause("spec.foo", "FieldValueRequired", "Required value"),)
    assert str(error) == f"{ABOUT}: 422 Invalid: spec.foo: Required value"


POD = 'core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:"a: b"}, Spec:core.PodSpec{' + "x:1, " * 200 + "}}"


@pytest.mark.regression("LIVE-M2")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (f"Invalid value: {POD}: field is immutable", "field is immutable"),
        ('Invalid value: "a: \\"b": must be one of: x, y', "must be one of: x, y"),
        ("Forbidden: updates to parameters are forbidden.", "Forbidden: updates to parameters are forbidden."),
        ("Required value", "Required value"),
        ("x" * 400, "x" * 300 + "..."),
        (f"Invalid value: {'x' * 1_000_000}: field is immutable", "field is immutable"),
    ],
)
def test_a_reason_is_given_without_the_value(words: str, reason: str) -> None:
    assert reason_without_value(words) == reason


@pytest.mark.regression("LIVE-M2")
def test_a_long_value_is_left_out_of_the_message() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": f"Invalid value: {POD}: is wrong", "field": "spec.template"}]

    error = status_error(ABOUT, 422, status("Invalid", causes=causes))

    assert str(error) == f"{ABOUT}: 422 Invalid: spec.template: Invalid value: is wrong"


def test_schema_mismatches_are_invalid_although_the_server_calls_them_its_own_error() -> None:
    words = (
        "failed to create typed patch object (default/x; apps/v1, Kind=Deployment): errors:\n"
        '  .spec.ports: duplicate entries for key [port=1]\n  .spec.bar: expected string, got &value{"1"}'
    )

    error = status_error(ABOUT, 500, status(message=words))

    assert isinstance(error, Invalid)
    assert [cause.field for cause in error.causes] == ["spec.ports", "spec.bar"]


def test_secrets_are_never_quoted() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": 'Invalid value: "hunter2"', "field": "data[key]"}]
    invalid = 'Secret "b" is invalid: data[key]: Invalid value: "hunter2"'
    refused = status_error("apply Secret a/b", 422, status("Invalid", invalid, causes=causes), confidential=True)
    typed = "failed to create typed patch object (a/b; /v1, Kind=Secret): .data.key: expected string, got hunter2"
    misfit = status_error("apply Secret a/b", 500, status(message=typed), confidential=True)
    bad = status_error("apply Secret a/b", 400, status("BadRequest", "json: hunter2"), confidential=True)

    for error in (refused, misfit, bad):
        assert "hunter2" not in repr((str(error), vars(error)))
    assert str(misfit).startswith("apply Secret a/b: 500 Invalid: the server's message")
    assert str(refused).startswith("apply Secret a/b: 422 Invalid: the server's message")


POLICY = "secrets \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'q' denied request"
RIGHTS = 'secrets "b" is forbidden: User "op" cannot patch resource "secrets" in API group "" in the namespace "a"'


@pytest.mark.regression("LIVE-H4")
@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 410, 413, 418, 422, 429, 500, 503, 504])
@pytest.mark.parametrize(
    "words",
    [
        RIGHTS,
        f"{RIGHTS}: hunter2",
        f"{POLICY}: hunter2",
        f'admission webhook "x.org" denied the request: hunter2 {RIGHTS}',
        'admission webhook "x.org" denied the request: failed calling webhook "hunter2"',
        'failed calling webhook "x.org": hunter2',
        'namespaces "a" not found',
        'Operation cannot be fulfilled on secrets "b": hunter2',
        "hunter2",
        "",
    ],
)
def test_only_status_and_reason_of_an_error_about_a_secret_are_shown(code: int, words: str) -> None:
    causes = [{"reason": "hunter2", "message": "hunter2", "field": "hunter2"}]
    conflict = {"reason": "FieldManagerConflict", "message": 'conflict with "hunter2"', "field": "hunter2"}
    body = status("hunter2", words, causes=[*causes, conflict], name="b")

    error = status_error("apply Secret a/b", code, body, confidential=True)

    assert str(error).startswith(f"apply Secret a/b: {code} ")
    assert str(error).endswith(WITHHELD)
    assert "hunter2" not in repr((str(error), vars(error)))


def test_field_managers_of_a_secret_are_named() -> None:
    causes = [{"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"', "field": ".data.key"}]
    body = status("Conflict", 'Apply failed with 1 conflict: conflict with "kubectl": .data.key', causes=causes)

    error = status_error("apply Secret a/b", 409, body, confidential=True)

    assert str(error) == "apply Secret a/b: 409 Conflict: .data.key is managed by kubectl"


@pytest.mark.parametrize("reason", ["two words", "x" * 65, "9", "a\n", ""])
def test_a_reason_that_no_condition_may_have_is_replaced(reason: str) -> None:
    error = status_error(ABOUT, 418, status(reason))

    assert isinstance(error, errors.ApiError)
    assert error.code == error.reason == "UnexpectedAnswer"


FAILED = (
    'Internal error occurred: failed calling webhook "strict.example.com": failed to call webhook: Post "https://x"'
)


@pytest.mark.regression("LIVE-H4")
@pytest.mark.parametrize("code", [500, 503])
@pytest.mark.parametrize("confidential", [False, True])
def test_a_webhook_that_fails_is_named_also_for_secrets(code: int, confidential: bool) -> None:  # noqa: FBT001
    error = status_error("apply Secret a/b", code, status("InternalError", FAILED), confidential=confidential)

    assert isinstance(error, errors.WebhookFailed)
    assert (error.code, error.webhook) == ("WebhookFailed", "strict.example.com")
    assert 'failed calling webhook "strict.example.com"' in str(error)
    assert ("https://x" in str(error)) == (not confidential)


def test_long_messages_are_truncated() -> None:
    assert len(str(status_error(ABOUT, 403, status("Forbidden", "x" * 100_000)))) < MAX_MESSAGE + 100


def test_health_report_is_reduced_to_its_failing_checks() -> None:
    report = b"""[+]ping ok
[-]etcd failed: reason withheld
[+]poststarthook/start-apiextensions-informers ok
[-]poststarthook/rbac/bootstrap-roles failed: reason withheld
readyz check failed
"""
    error = status_error("get /readyz", 500, parse_status(report))

    assert str(error) == "get /readyz: 500 InternalError: failing checks: etcd, poststarthook/rbac/bootstrap-roles"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["message", "details", "causes", "reason"]), inner),
)


@given(st.integers(300, 599), st.dictionaries(st.sampled_from(["reason", "message", "details"]), JSON), st.booleans())
def test_any_answer_of_any_server_becomes_an_error(code: int, body: dict[str, Any], confidential: bool) -> None:  # noqa: FBT001  # drawn
    assert isinstance(status_error(ABOUT, code, body, confidential=confidential), DependencyError)


@given(st.binary())
def test_any_bytes_are_read_as_a_status(answer: bytes) -> None:
    assert isinstance(parse_status(answer), dict)
