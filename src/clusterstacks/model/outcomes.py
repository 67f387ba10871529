"""Results of a reconcile: settled, waiting, or stalled until a person acts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Settled:
    """Done; reconcile again after ``recheck``, or at the next event when it is None."""

    recheck: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waits for another party; reconcile again after ``retry``, or at the next event when it is None."""

    reason: str
    message: str
    retry: timedelta | None = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Stalled:
    """A person must edit something; the next event triggers a reconcile."""

    reason: str
    message: str


Outcome: TypeAlias = Settled | Waiting | Stalled
