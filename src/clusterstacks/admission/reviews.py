"""AdmissionReview, version v1: what the API server asks, and how it wants the answer.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import orjson

from clusterstacks.api.reading import at, mapping, text
from clusterstacks.domain.admission.answers import REFUSAL_CHARACTERS, bounded, shortened
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from clusterstacks.domain.admission.answers import Answer
    from clusterstacks.domain.objects import Manifest

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
REFUSED: Final = 422
"""Status of a refusal; the API server uses it for objects that break a rule."""


class Operation(StrEnum):
    """What is done to an object; other operations are not asked about."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class InvalidReview(SpecError):
    """What was sent is no AdmissionReview."""

    def __init__(self, problem: str) -> None:
        super().__init__("InvalidReview", f"no {KIND} of {API_VERSION}: {problem}")


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


def parse_review(body: bytes) -> Review:
    """Read a question; what the object itself looks like does not matter here.

    Raises:
        InvalidReview: It is none.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InvalidReview("it is no JSON") from None
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


def answer_document(uid: str, answer: Answer) -> bytes:
    """Write an answer."""
    response: Manifest = {"uid": uid, "allowed": answer.allowed}
    if not answer.allowed:
        message = shortened(answer.refusal, REFUSAL_CHARACTERS)
        response["status"] = {"code": REFUSED, "reason": "Invalid", "message": message}
    if warnings := bounded(answer.warnings):
        response["warnings"] = list(warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
