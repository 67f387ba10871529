"""Reads AdmissionReviews (admission.k8s.io/v1) and writes their answers.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.model import bounded_json
from clusterstacks.model.documents import at, mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.operator.webhooks.answers import REFUSAL_CHARACTERS, AdmissionResponse, bounded, shortened

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
REFUSED: Final = 422
"""Status of a refusal; the API server uses it for objects that break a rule."""

MAX_VALUES: Final = 100_000
"""Values (lists, mappings, texts, numbers) in one request, object and predecessor together: 30 ms to decode and 10 MB,
measured. A Cluster of hundreds of variables has some thousands."""

EXACT_BYTES: Final = 4 * 1024 * 1024
"""Longest request whose texts are removed before values are counted. Objects in etcd have 1.5 MiB by default
(``--max-request-bytes``), so twice that and the rest of a request fits."""

HEAD_BYTES: Final = 4096
"""Upper bound for the part of a request that names the object: kind, resource, name and namespace, each once or twice
and bounded to 253 characters by the API server."""

HEAD_END: Final = b',"userInfo":'
"""The field that the API server writes after those that name the object. Source: AdmissionRequest in
k8s.io/api/admission/v1, whose fields are written in their order."""


class Operation(StrEnum):
    """The operation on an object; the webhooks are not registered for others, e.g. CONNECT."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class InvalidReview(SpecError):
    """The body is not an AdmissionReview."""

    def __init__(self, problem: str) -> None:
        super().__init__("InvalidReview", f"not a valid {KIND} of {API_VERSION}: {problem}")


class OutOfBounds(SpecError):
    """A request is too large or nested too deeply to be decoded."""

    def __init__(self, problem: str) -> None:
        super().__init__("ReviewOutOfBounds", problem)


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The request of an AdmissionReview."""

    uid: str
    """Id of the request, which the answer repeats."""
    operation: Operation
    group: str
    kind: str
    new: Manifest = field(repr=False)
    """The object after the write; empty for a deletion."""
    old: Manifest = field(repr=False)
    """The object before the write; empty for a creation."""
    dry_run: bool = False
    """True if nothing will be written: then the answer must have no side effect."""
    user: Manifest = field(default_factory=dict, repr=False)
    """The ``userInfo`` of the writer."""


def count_values(body: bytes | bytearray) -> int:
    """Return an upper bound for the number of values in a JSON text, without decoding it; takes at most 4 ms per MiB.

    Commas and brackets inside texts count as well, unless they alone would exceed the bound. Raises OutOfBounds for
    more than ``MAX_VALUES``.
    """
    values = 1  # the document itself
    if len(body) <= EXACT_BYTES:
        values += bounded_json.count_values(body, MAX_VALUES - 1)
    else:
        values += bounded_json.estimate_values(body)
    if values > MAX_VALUES:
        raise OutOfBounds(f"it and its predecessor have more than {MAX_VALUES:,} values together; make it smaller")
    return values


def decode_within_bounds(body: bytes | bytearray, *, values: int = 0) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Decode JSON of some MiB in less than 50 ms; ``values`` is the result of ``count_values``, where it is known.

    Raises OutOfBounds for too many values, or more levels than orjson's 1024; InvalidReview for other texts than JSON.
    """
    if not values:
        count_values(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "depth" in error.msg:
            raise OutOfBounds("it or its predecessor is nested deeper than 1024 levels; make it flatter") from None
        raise InvalidReview("it is not JSON") from None


def refusal_document(body: bytes | bytearray, problem: str) -> bytes | None:
    """Write the refusal of a request that is not decoded; None if its beginning does not name the object.

    With ``failurePolicy: Ignore`` the API server would ignore an HTTP error, so that is not a refusal.
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


def parse_review(body: bytes | bytearray, *, values: int = 0) -> AdmissionRequest:
    """Read a request; the object in it is not checked here. Parameters and errors as of ``decode_within_bounds``."""
    document = decode_within_bounds(body, values=values)
    if at(document, "apiVersion") != API_VERSION or at(document, "kind") != KIND:
        raise InvalidReview("apiVersion or kind is wrong")
    request = mapping(document, "request")
    uid = text(request, "uid")
    if not uid:
        raise InvalidReview("request.uid is missing")
    try:
        operation = Operation(text(request, "operation"))
    except ValueError:
        raise InvalidReview("request.operation is not CREATE, UPDATE or DELETE") from None
    return AdmissionRequest(
        uid=uid,
        operation=operation,
        group=text(request, "kind", "group"),
        kind=text(request, "kind", "kind"),
        new=mapping(request, "object"),
        old=mapping(request, "oldObject"),
        dry_run=at(request, "dryRun") is True,
        user=mapping(request, "userInfo"),
    )


def answer_document(uid: str, answer: AdmissionResponse) -> bytes:
    """Write the AdmissionReview that answers the request with this uid, within the bounds of the API server."""
    response: Manifest = {"uid": uid, "allowed": answer.allowed}
    if not answer.allowed:
        message = shortened(answer.refusal, REFUSAL_CHARACTERS)
        response["status"] = {"code": REFUSED, "reason": "Invalid", "message": message}
    if warnings := bounded(answer.warnings):
        response["warnings"] = list(warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
