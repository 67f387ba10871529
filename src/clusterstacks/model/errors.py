"""Errors, classified by who must act.

::

    ClusterStacksError
    ├── SpecError          a person must edit something: reported, not retried
    └── DependencyError    the same call may succeed later: retried with back-off

Anything else that escapes a reconciler is a bug: it is logged with its trace, counted and retried, never swallowed.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.outcomes import Outcome, Stalled, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator


class ClusterStacksError(Exception):
    """A failure with a stable name.

    ``code`` is a CamelCase reason for conditions and events, e.g. ``ReleaseNotFound``. The message names the object,
    the cause and the remedy, and never contains a secret.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SpecError(ClusterStacksError):
    """A person must edit an object, a file or a setting; until then the same call fails again."""


class DependencyError(ClusterStacksError):
    """An external dependency is missing or failing; the same call may succeed later.

    ``retry`` is the shortest useful wait; repeated failures increase it.
    """

    retry = timedelta(seconds=10)


@contextmanager
def error_context(place: object) -> Iterator[None]:
    """Prefix SpecErrors and DependencyErrors of the block with a place, unless the message names it."""
    try:
        yield
    except ClusterStacksError as error:
        if re.search(rf"(?<![\w./-]){re.escape(str(place))}(?![\w-])", error.message):
            raise
        kind = DependencyError if isinstance(error, DependencyError) else SpecError
        raise kind(error.code, f"{place}: {error.message}") from None


def outcome_of(error: ClusterStacksError) -> Outcome:
    """Translate an error into an outcome; the only place that does."""
    if isinstance(error, DependencyError):
        return Waiting(error.code, error.message, error.retry)
    return Stalled(error.code, error.message)
