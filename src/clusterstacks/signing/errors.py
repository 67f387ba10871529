"""What can be wrong with keys and signatures; all of it is a person's to mend."""

from __future__ import annotations

from clusterstacks.domain.documents import DocumentError
from clusterstacks.domain.errors import DependencyError, SpecError
from clusterstacks.releases.release_source import SIGNATURE_SUFFIX

SHOWN_PROBLEMS = 4
"""How many signatures a message speaks of (arbitrary)."""


class SignatureRefused(DocumentError):
    """A signature that proves nothing: it is damaged, of another release, or made by a key nobody trusts here."""

    CODE = "SignatureRefused"


class SignatureRequired(SpecError):
    """A release that may not be used because no trusted key signed it.

    Args:
        release: Its name.
        problems: What was wrong with every signature that was found.
    """

    def __init__(self, release: object, problems: tuple[str, ...]) -> None:
        super().__init__(
            "SignatureRequired",
            f"release {release} is not signed by a trusted key ({_listed(problems)}): "
            "ask its publisher to sign it with a trusted key ('csctl sign'), and do not use it until then",
        )


class SignaturesUnclear(DependencyError):
    """A release that no trusted key has signed as far as is known, and not all signatures could be looked at.

    Args:
        release: Its name.
        problems: What was not looked at, and what was wrong with every signature that was.
    """

    def __init__(self, release: object, problems: tuple[str, ...]) -> None:
        super().__init__(
            "SignaturesUnclear",
            f"the signatures of release {release} cannot be verified now, as not all of them were read "
            f"({_listed(problems)}): delete those that others have added to its repository; this is tried again",
        )


class SignatureConflict(SpecError):
    """An envelope that is there already and is none of the release in hand."""

    def __init__(self, release: object, problem: str) -> None:
        super().__init__(
            "SignatureConflict",
            f"release {release}: no signature can be added to {release}{SIGNATURE_SUFFIX} ({problem}): "
            "remove that file to sign the release as it is now",
        )


class KeyUnusable(SpecError):
    """A text or file that is not the key it should be. The text itself is never repeated.

    Args:
        key: What the key is called, e.g. its file.
        problem: What is wrong and the way out.
    """

    def __init__(self, key: object, problem: str) -> None:
        super().__init__("KeyUnusable", f"key {key} {problem}")


def _listed(problems: tuple[str, ...]) -> str:
    further = len(problems) - SHOWN_PROBLEMS
    return "; ".join((*problems[:SHOWN_PROBLEMS], f"{further} more") if further > 0 else problems)
