"""Questions of the API server and answers to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusterstacks.admission.reviews import InvalidReview, Operation, answer_document, parse_review
from clusterstacks.domain.admission.answers import Answer, warned


def review(**request: Any) -> bytes:
    plain = {"uid": "u1", "operation": "UPDATE", "kind": {"group": "g", "version": "v1", "kind": "K"}}
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**plain, **request}}
    return json.dumps(document).encode()


def test_a_question_is_read() -> None:
    found = parse_review(review(object={"a": 1}, oldObject={"a": 2}, dryRun=True))

    assert (found.uid, found.operation, found.group, found.kind) == ("u1", Operation.UPDATE, "g", "K")
    assert (found.new, found.old, found.dry_run) == ({"a": 1}, {"a": 2}, True)


@pytest.mark.parametrize("thing", [None, [], "text", 7])
def test_an_object_of_any_shape_is_no_error(thing: Any) -> None:
    found = parse_review(review(operation="DELETE", object=thing, oldObject=thing))

    assert (found.new, found.old, found.dry_run) == ({}, {}, False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        review(uid=""),
        review(operation="CONNECT"),
        review(operation=None),
    ],
)
def test_what_is_no_question_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidReview):
        parse_review(body)


def test_a_refusal_has_a_status_and_its_warnings() -> None:
    answer = json.loads(answer_document("u1", Answer("because", ("careful",))))

    assert answer["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {"code": 422, "reason": "Invalid", "message": "because"},
        "warnings": ["careful"],
    }


def test_a_plain_yes_says_nothing_else() -> None:
    assert json.loads(answer_document("u1", Answer()))["response"] == {"uid": "u1", "allowed": True}


def test_warnings_stay_within_what_the_api_server_takes() -> None:
    response = json.loads(answer_document("u1", warned(*(f"{at} {'x' * 300}" for at in range(50)), "same", "same")))

    warnings = response["response"]["warnings"]
    assert max(map(len, warnings)) == 255
    assert sum(len(one.encode()) for one in warnings) <= 4096
    assert len(warnings) == 16


def test_a_refusal_is_bounded() -> None:
    response = json.loads(answer_document("u1", Answer("x" * 100_000)))

    assert len(response["response"]["status"]["message"]) == 4096
