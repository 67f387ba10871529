"""Answers of the webhooks: refusal and warnings, within the lengths that the API server accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

WARNING_CHARACTERS: Final = 255
"""Longest warning. Source: the API reference of AdmissionResponse, which recommends less than 256 characters each."""

WARNINGS_CHARACTERS: Final = 4096
"""Length of all warnings of one answer. Source: the API server drops or cuts the rest."""

REFUSAL_CHARACTERS: Final = 4096
"""Longest refusal (arbitrary: two screens of a terminal)."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The answer to a request."""

    refusal: str = ""
    """Why the write is refused and what to do; empty when it is allowed."""
    warnings: tuple[str, ...] = ()
    """Shown to the user, whether the write is refused or not."""
    excused: str = ""
    """The refusal that the escape annotation prevented; empty without it."""

    @property
    def allowed(self) -> bool:
        """True if there is no refusal; warnings do not count."""
        return not self.refusal

    @property
    def decision(self) -> str:
        """The answer in one word: refused, warned or allowed."""
        return "refused" if self.refusal else "warned" if self.warnings else "allowed"


ALLOWED: Final = AdmissionResponse()


def warned(*warnings: str) -> AdmissionResponse:
    """Allow with warnings, which may be longer than the API server accepts."""
    return AdmissionResponse(warnings=warnings)


def bounded(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings that the API server accepts: each once, short, and not too many."""
    accepted: list[str] = []
    room = WARNINGS_CHARACTERS
    for warning in dict.fromkeys(warnings):
        text = shortened(warning, WARNING_CHARACTERS)
        room -= len(text.encode())
        if room < 0:
            break
        accepted.append(text)
    return tuple(accepted)


def shortened(text: str, characters: int) -> str:
    """Cut a text to a number of characters, of which the last three are then dots."""
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
