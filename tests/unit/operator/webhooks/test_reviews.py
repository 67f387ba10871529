"""AdmissionReview documents: reading, limits and responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.operator.webhooks.answers import AdmissionResponse, warned
from clusterstacks.operator.webhooks.reviews import (
    EXACT_BYTES,
    MAX_VALUES,
    InvalidReview,
    Operation,
    OutOfBounds,
    answer_document,
    count_values,
    decode_within_bounds,
    parse_review,
    refusal_document,
)


def review(**request: Any) -> bytes:
    plain = {"uid": "u1", "operation": "UPDATE", "kind": {"group": "g", "version": "v1", "kind": "K"}}
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**plain, **request}}
    return json.dumps(document).encode()


def test_admission_review_is_read() -> None:
    found = parse_review(review(object={"a": 1}, oldObject={"a": 2}, dryRun=True))

    assert (found.uid, found.operation, found.group, found.kind) == ("u1", Operation.UPDATE, "g", "K")
    assert (found.new, found.old, found.dry_run) == ({"a": 1}, {"a": 2}, True)


@pytest.mark.parametrize("thing", [None, [], "text", 7])
def test_review_with_an_arbitrary_object_is_read(thing: Any) -> None:
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
def test_invalid_review_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidReview):
        parse_review(body)


def test_denial_has_a_status_and_warnings() -> None:
    answer = json.loads(answer_document("u1", AdmissionResponse("because", ("careful",))))

    assert answer["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {"code": 422, "reason": "Invalid", "message": "because"},
        "warnings": ["careful"],
    }


def test_plain_allow_has_no_other_fields() -> None:
    assert json.loads(answer_document("u1", AdmissionResponse()))["response"] == {"uid": "u1", "allowed": True}


def test_warnings_stay_within_the_limits_of_the_api_server() -> None:
    response = json.loads(answer_document("u1", warned(*(f"{at} {'x' * 300}" for at in range(50)), "same", "same")))

    warnings = response["response"]["warnings"]
    assert max(map(len, warnings)) == 255
    assert sum(len(one.encode()) for one in warnings) <= 4096
    assert len(warnings) == 16


def test_denial_message_is_bounded() -> None:
    response = json.loads(answer_document("u1", AdmissionResponse("x" * 100_000)))

    assert len(response["response"]["status"]["message"]) == 4096


# Bounds

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab,[]{}"\\\\'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('ab,[{"\\\\'), inner),
)


def values_of(document: Any) -> int:
    """Count the values one by one."""
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return 1 + sum(map(values_of, inner))


@given(ANYTHING)
def test_number_of_values_is_never_underestimated(document: Any) -> None:
    body = json.dumps(document).encode()

    assert count_values(body) >= values_of(document)
    assert decode_within_bounds(body) == document


@settings(max_examples=20)
@given(ANYTHING)
def test_separators_in_strings_do_not_count_as_values(document: Any) -> None:
    full = ["," * (MAX_VALUES + 1), document]
    body = json.dumps(full).encode()

    assert values_of(full) <= count_values(body) <= 2 * values_of(full) + 1


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"0," * (MAX_VALUES - 2) + b"0]",
        json.dumps({"a": '[{,\\",[{' * MAX_VALUES}).encode(),
        json.dumps(["a,b"] * (MAX_VALUES // 2)).encode(),
        b"[" * 400 + b"]" * 400,
    ],
)
def test_large_legitimate_review_is_decoded(body: bytes) -> None:
    assert decode_within_bounds(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" + b"0," * MAX_VALUES + b"0]", "more than 100,000 values"),
        (b"[" + b"{}," * MAX_VALUES + b"{}]", "more than 100,000 values"),
        (b"[" * (MAX_VALUES + 1), "more than 100,000 values"),
        (b'"' * MAX_VALUES * 5 + b"," * (MAX_VALUES + 1), "more than 100,000 values"),
        (b'["' + b"," * EXACT_BYTES + b'"]', "more than 100,000 values"),
        (b"[" * 2000 + b"]" * 2000, "deeper than 1024 levels"),
    ],
)
def test_review_above_the_limits_is_not_decoded(body: bytes, words: str) -> None:
    with pytest.raises(OutOfBounds, match=words):
        decode_within_bounds(body)


HEAD = (
    b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u1","kind":{"group":"g","version":'
    b'"v1","kind":"Cluster"},"requestKind":{"kind":"Cluster"},"name":"one","namespace":"team","operation":"CREATE",'
    b'"userInfo":{"username":"x"},"object":'
)
"""How the API server begins a question."""


def test_undecoded_review_is_denied_with_its_uid() -> None:
    document = refusal_document(HEAD + b"[" * 9000, "it is large")

    assert document is not None
    response = json.loads(document)["response"]
    assert (response["uid"], response["allowed"]) == ("u1", False)
    assert response["status"]["message"] == "Cluster team/one cannot be validated: it is large"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[],",
        b',"userInfo":',
        b'{"request":[]' + HEAD[-40:],
        HEAD.replace(b"u1", b""),
        HEAD.replace(b'"u1"', b"{}"),
        b" " * 4096 + HEAD,
    ],
)
def test_review_without_a_readable_uid_gets_no_response(body: bytes) -> None:
    assert refusal_document(body, "it is large") is None
