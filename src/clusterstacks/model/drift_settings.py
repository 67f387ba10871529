"""Settings of the drift sweep: its interval, what it does, and the differences that it ignores."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.model.documents import parse_duration, shown
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.objects import ObjectId

SHORTEST: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(hours=24)
"""Bounds of the interval. Arbitrary: a sweep is one list per kind of object."""

DEFAULT_INTERVAL: Final = timedelta(seconds=60)
"""Default of ``--drift-interval``; that of the health of the addons, whose lists a sweep shares."""

OFF: Final = "off"

Step: TypeAlias = str | int | tuple[str, str]
"""Key of a mapping, index of a list, or key field and its value of a list's element: ``("name", "app")``."""

FieldPath: TypeAlias = tuple[Step, ...]


class DriftMode(StrEnum):
    """The handling of an object that another writer changed or deleted."""

    CORRECT = "Correct"
    WARN = "Warn"


class SyncStrategy(StrEnum):
    """When an object of a sync is written."""

    APPLY_ONCE = "ApplyOnce"
    """It is created if it does not exist, and never written again."""
    RECONCILE = "Reconcile"
    """It is also written when its definition changes."""
    CONTINUOUS = "Continuous"
    """It is also written when it differs in the cluster."""


class InvalidInterval(SpecError):
    """The text is not an interval of the sweep, or it is out of bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(
            "InvalidInterval",
            f"{shown(text)} is not a valid interval (expected for example 5m, from 10s to 24h, or off)",
        )


def parse_interval(text: str) -> timedelta | None:
    """Parse ``45s``, ``10m``, ``2h30m`` or ``off``, which is None; raise InvalidInterval for anything else."""
    if text == OFF:
        return None
    try:
        interval = parse_duration(text)
    except SpecError:
        raise InvalidInterval(text) from None
    if not SHORTEST <= interval <= LONGEST:
        raise InvalidInterval(text)
    return interval


@dataclass(frozen=True, slots=True)
class IgnoredDifference:
    """Fields of objects that other writers may change."""

    kind: str
    """``Deployment``, or ``Deployment.apps`` where several groups have the kind."""
    name: str
    """Name of the object; empty for all objects of the kind."""
    fields: tuple[FieldPath, ...]

    def concerns(self, identity: ObjectId) -> bool:
        """Return whether kind and name match the object."""
        kind, _, group = self.kind.partition(".")
        return kind == identity.kind and group in ("", identity.group) and self.name in ("", identity.name)


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """Settings of the sweep of one cluster."""

    interval: timedelta | None = DEFAULT_INTERVAL
    """Time between two sweeps; None switches them off."""
    mode: DriftMode = DriftMode.CORRECT
    ignored: tuple[IgnoredDifference, ...] = ()
    complaint: str = ""
    """Says which setting is not used, and why; empty if there is none."""
    owner: str = "the ClusterStack"
    """The object with the settings, for messages."""
    warns_because: str = ""
    """Why the mode is Warn; empty if ``spec.drift.mode`` of the owner says so."""

    def ignored_fields(self, identity: ObjectId) -> tuple[FieldPath, ...]:
        """Return the fields of an object that other writers may change."""
        return tuple(field for ignored in self.ignored if ignored.concerns(identity) for field in ignored.fields)


def parse_pointer(pointer: str) -> FieldPath:
    """Parse a JSON pointer (RFC 6901): ``/spec/replicas``, or ``/metadata/annotations/example.org~1key``."""
    tokens = pointer.split("/")[1:]
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def first_interval(
    settings: Iterable[tuple[str, str]], default: timedelta | None
) -> tuple[timedelta | None, tuple[str, ...]]:
    """Return the interval of the first setting that is valid, and a complaint for each one before it.

    A setting is its name in messages and its value, which is empty where it is not set.
    """
    complaints: list[str] = []
    for name, text in settings:
        try:
            if text:
                return parse_interval(text), tuple(complaints)
        except InvalidInterval as error:
            complaints.append(f"{name} is not used: {error.message}")
    return default, tuple(complaints)
