"""What a webhook answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

WARNING_CHARACTERS: Final = 255
"""Longest warning. Source: the API reference of AdmissionResponse, which asks for less than 256 characters each."""

WARNINGS_CHARACTERS: Final = 4096
"""All warnings of one answer. Source: the API server drops or cuts what is beyond."""

REFUSAL_CHARACTERS: Final = 4096
"""Longest refusal (arbitrary: two screens of a terminal)."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """An answer.

    Args:
        refusal: Why not, with the way out; empty when the write is allowed.
        warnings: What the writer should know, refused or not.
        excused: What the escape annotation let through; empty when nothing had to be.
    """

    refusal: str = ""
    warnings: tuple[str, ...] = ()
    excused: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the write goes on."""
        return not self.refusal

    @property
    def decision(self) -> str:
        """The answer in one word: refused, warned or allowed."""
        return "refused" if self.refusal else "warned" if self.warnings else "allowed"


ALLOWED: Final = AdmissionResponse()


def warned(*warnings: str) -> AdmissionResponse:
    """Allow with warnings."""
    return AdmissionResponse(warnings=warnings)


def bounded(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return warnings as the API server takes them: each once, short, and not too many."""
    found: list[str] = []
    room = WARNINGS_CHARACTERS
    for warning in dict.fromkeys(warnings):
        text = shortened(warning, WARNING_CHARACTERS)
        room -= len(text.encode())
        if room < 0:
            break
        found.append(text)
    return tuple(found)


def shortened(text: str, characters: int) -> str:
    """Cut a text that is too long."""
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
