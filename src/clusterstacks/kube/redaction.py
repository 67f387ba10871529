"""Selects from a server's words about a Secret those that cannot quote it.

An admission webhook, a policy or a proxy may put the content of a Secret into an answer of any status. So only
sentences of the API server itself are shown, up to the place where the words of another one begin.
"""

from __future__ import annotations

import re
from typing import Final

WITHHELD: Final = "(the server's words are withheld, they may quote the Secret)"

REASONS: Final = frozenset(
    {
        "AlreadyExists",
        "BadRequest",
        "Conflict",
        "Expired",
        "Forbidden",
        "Gone",
        "InternalError",
        "Invalid",
        "MethodNotAllowed",
        "NotAcceptable",
        "NotFound",
        "RequestEntityTooLarge",
        "ServerTimeout",
        "ServiceUnavailable",
        "Timeout",
        "TooManyRequests",
        "Unauthorized",
        "UnsupportedMediaType",
    }
)
"""Reasons of the API server; source: StatusReason in k8s.io/apimachinery meta/v1. A webhook may send any other text."""

_NAME: Final = r"[^\"'\s]{1,253}"
_FORBIDDEN: Final = rf'secrets(?: "{_NAME}")? is forbidden: '
_SENTENCES: Final = tuple(
    re.compile(sentence)
    for sentence in (
        # of the authorizer
        _FORBIDDEN + r'User "(?:[^"\\]|\\.){1,253}" cannot \w{1,32} resource "secrets" in API group ""'
        rf'(?: in the namespace "{_NAME}"| at the cluster scope)?',
        # of admission
        _FORBIDDEN + rf"ValidatingAdmissionPolicy '{_NAME}' with binding '{_NAME}' denied request",
        _FORBIDDEN + rf"unable to create new content in namespace {_NAME} because it is being terminated",
        _FORBIDDEN + rf"exceeded quota: {_NAME}",
        rf'(?:Internal error occurred: )?failed calling webhook "{_NAME}"',
        rf'admission webhook "{_NAME}" denied the request',
        # of the storage
        rf'(?:secrets|namespaces) "{_NAME}" (?:not found|already exists)',
        rf'Operation cannot be fulfilled on secrets "{_NAME}"',
        r"too old resource version: \d+ \(\d+\)",
        r"Unauthorized",
    )
)
_VALIDATION: Final = re.compile(rf'Secret "{_NAME}" is invalid: |Apply failed with \d+ conflicts?: ')


def redacted(words: str) -> str:
    """Return the sentence of the API server that the words begin with, or that they are withheld."""
    for sentence in _SENTENCES:
        if matched := sentence.match(words):
            rest = words[matched.end() :].strip()
            return f"{matched[0]} {WITHHELD}" if rest else matched[0]
    return WITHHELD


def names_fields(words: str) -> bool:
    """Tell whether the answer is of the API server's own validation, so that its fields are those of the Secret."""
    return _VALIDATION.match(words) is not None
