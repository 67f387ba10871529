"""AdmissionReview, version v1: what the API server asks, and how it wants the answer.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.api import bounded_json
from clusterstacks.api.untyped import at, mapping, text
from clusterstacks.domain.errors import SpecError
from clusterstacks.webhooks.answers import REFUSAL_CHARACTERS, AdmissionResponse, bounded, shortened

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
REFUSED: Final = 422
"""Status of a refusal; the API server uses it for objects that break a rule."""

MAX_VALUES: Final = 100_000
"""Values (lists, mappings, texts, numbers) in one question, object and predecessor together: 30 ms to decode and 10 MB,
measured. A Cluster of hundreds of variables has some thousands."""

EXACT_BYTES: Final = 4 * 1024 * 1024
"""Longest question whose texts are taken out before values are counted. Objects in etcd have 1.5 MiB by default
(``--max-request-bytes``), so twice that and the rest of a question fits."""

HEAD_BYTES: Final = 4096
"""Where the part of a question that names it ends at the latest: kind, resource, name and namespace, each once or twice
and bounded to 253 characters by the API server."""

HEAD_END: Final = b',"userInfo":'
"""What the API server writes after what names the question. Source: AdmissionRequest in k8s.io/api/admission/v1, whose
fields are written in their order."""


class Operation(StrEnum):
    """What is done to an object; other operations are not asked about."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class InvalidReview(SpecError):
    """What was sent is no AdmissionReview."""

    def __init__(self, problem: str) -> None:
        super().__init__("InvalidReview", f"no {KIND} of {API_VERSION}: {problem}")


class OutOfBounds(SpecError):
    """A question is too large to be decoded."""

    def __init__(self, problem: str) -> None:
        super().__init__("ReviewOutOfBounds", problem)


@dataclass(frozen=True, slots=True)
class Review:
    """A question.

    Args:
        uid: Of the question; the answer repeats it.
        operation: What is done.
        group: Of the kind.
        kind: Of the object.
        new: The object as it is to be; empty when it is deleted.
        old: The object as it is; empty when it is created.
        dry_run: Whether nothing will be written: then the answer may have no effect either.
    """

    uid: str
    operation: Operation
    group: str
    kind: str
    new: Manifest = field(repr=False)
    old: Manifest = field(repr=False)
    dry_run: bool = False


def count_values(body: bytes | bytearray) -> int:
    """Return how many values a text of JSON has at most, without decoding it; takes 4 ms a MiB at most.

    Commas and brackets inside texts count as well, unless they alone would exceed the bound.

    Raises:
        OutOfBounds: There are more than ``MAX_VALUES``.
    """
    found = 1  # the document itself
    if len(body) <= EXACT_BYTES:
        found += bounded_json.count_values(body, MAX_VALUES - 1)
    else:
        found += bounded_json.estimate_values(body)
    if found > MAX_VALUES:
        raise OutOfBounds(f"it and its predecessor have more than {MAX_VALUES:,} values together; make it smaller")
    return found


def decode_within_bounds(body: bytes | bytearray, *, values: int = 0) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Decode JSON that takes less than 50 ms and a depth of 1024, which is orjson's.

    Args:
        body: The text, at most some MiB.
        values: What ``count_values`` said of it; it is asked when that is missing.

    Raises:
        OutOfBounds: It is larger, or nested deeper.
        InvalidReview: It is not JSON.
    """
    if not values:
        count_values(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "depth" in error.msg:
            raise OutOfBounds("it or its predecessor is nested deeper than 1024 levels; make it flatter") from None
        raise InvalidReview("it is no JSON") from None


def refusal_document(body: bytes | bytearray, problem: str) -> bytes | None:
    """Write the refusal of a question that is not decoded; None where its beginning does not say which it is.

    An HTTP error would not be a refusal: the API server goes on where ``failurePolicy`` is ``Ignore``.
    """
    end = body.find(HEAD_END, 0, HEAD_BYTES)
    try:
        request = mapping(orjson.loads(bytes(body[: max(end, 0)]) + b"}}"), "request")
    except orjson.JSONDecodeError:
        return None
    uid = text(request, "uid")
    if not uid:
        return None
    name = "/".join(part for part in (text(request, "namespace"), text(request, "name")) if part)
    return answer_document(
        uid, AdmissionResponse(f"{text(request, 'kind', 'kind')} {name} cannot be validated: {problem}")
    )


def parse_review(body: bytes | bytearray, *, values: int = 0) -> Review:
    """Read a question; what the object itself looks like does not matter here.

    Args:
        body: The question.
        values: How many it has, where they are counted already.

    Raises:
        OutOfBounds: It is too large, or nested too deep.
        InvalidReview: It is something else.
    """
    document = decode_within_bounds(body, values=values)
    if at(document, "apiVersion") != API_VERSION or at(document, "kind") != KIND:
        raise InvalidReview("apiVersion or kind says something else")
    request = mapping(document, "request")
    uid = text(request, "uid")
    if not uid:
        raise InvalidReview("request.uid is missing")
    try:
        operation = Operation(text(request, "operation"))
    except ValueError:
        raise InvalidReview("request.operation is none of CREATE, UPDATE and DELETE") from None
    return Review(
        uid=uid,
        operation=operation,
        group=text(request, "kind", "group"),
        kind=text(request, "kind", "kind"),
        new=mapping(request, "object"),
        old=mapping(request, "oldObject"),
        dry_run=at(request, "dryRun") is True,
    )


def answer_document(uid: str, answer: AdmissionResponse) -> bytes:
    """Write an answer."""
    response: Manifest = {"uid": uid, "allowed": answer.allowed}
    if not answer.allowed:
        message = shortened(answer.refusal, REFUSAL_CHARACTERS)
        response["status"] = {"code": REFUSED, "reason": "Invalid", "message": message}
    if warnings := bounded(answer.warnings):
        response["warnings"] = list(warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
