"""Errors of keys and signatures."""

from __future__ import annotations

from clusterstacks.model.documents import DocumentError, and_more
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.release.release_source import SIGNATURE_SUFFIX

SHOWN_PROBLEMS = 4
"""Most signatures that a message lists (arbitrary)."""


class SignatureRefused(DocumentError):
    """A signature that proves nothing: it is damaged, for another release, or made by an untrusted key."""

    CODE = "SignatureRefused"


class SignatureRequired(SpecError):
    """A release that may not be used because no trusted key signed it; with the problem of every signature it has."""

    def __init__(self, release: object, problems: tuple[str, ...]) -> None:
        super().__init__(
            "SignatureRequired",
            f"release {release} is not signed by a trusted key ({_listed(problems)}); "
            "ask its publisher to sign it with a trusted key ('csctl sign'), and do not use it until then",
        )


class SignaturesUnclear(DependencyError):
    """A release without a known trusted signature, of which not all signatures could be read."""

    def __init__(self, release: object, problems: tuple[str, ...]) -> None:
        super().__init__(
            "SignaturesUnclear",
            f"the signatures of release {release} cannot be verified now, because not all of them were read "
            f"({_listed(problems)}); delete those that others added to its repository; this is retried",
        )


def signature_conflict(release: object, problem: str) -> SpecError:
    """Return the error for an existing envelope that is not for this release."""
    return SpecError(
        "SignatureConflict",
        f"release {release}: no signature can be added to {release}{SIGNATURE_SUFFIX} ({problem}); "
        "remove that file to sign the release as it is now",
    )


def key_unusable(key: object, problem: str) -> SpecError:
    """Return the error for a text or file that is not a usable key. Messages never contain the text itself.

    Args:
        key: Name of the key, for example its file.
        problem: The problem, and what to do.
    """
    return SpecError("KeyUnusable", f"key {key} {problem}")


def _listed(problems: tuple[str, ...]) -> str:
    return and_more(problems, SHOWN_PROBLEMS, separator="; ")
