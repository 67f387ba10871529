"""What a reconcile ends with: settled, waiting for time or others, or stalled until a person acts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing left to do; look again after ``recheck``, or only at the next change when it is None."""

    recheck: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Time or somebody else will move it on; look again after ``retry``, or only at the next change when it is None."""

    reason: str
    message: str
    retry: timedelta | None = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Stalled:
    """A person must edit something; the next change wakes the reconciler."""

    reason: str
    message: str


Outcome: TypeAlias = Settled | Waiting | Stalled
