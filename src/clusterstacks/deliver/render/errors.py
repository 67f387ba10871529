"""Errors of renders.

::

    SpecError
    ├── RenderFailed    the chart, its values or a template is not valid: the message of Helm, with template and line
    └── CelFailed       the expression does not compile, or it or its objects are too large
    DependencyError
    ├── CelUndecided    the expression reads something that the objects do not have (yet)
    ├── RenderTimeout   the deadline passed and the worker was killed
    ├── WorkersBusy     every worker was busy for too long
    └── WorkerDied      the worker ended unexpectedly, e.g. out of memory
        └── NotStarted  no worker can be started, whatever the input is

Every message begins with the label of the caller, e.g. ``addon cni of openstack-scs-1-35-v2``.
"""

from __future__ import annotations

from clusterstacks.model.errors import DependencyError, SpecError

LONGEST_MESSAGE = 1500
"""Maximum number of characters of a message of Helm (arbitrary: people read conditions)."""


class RenderFailed(SpecError):
    """The chart, its values or a template is not valid."""

    CODE = "TemplateFailed"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class CelFailed(SpecError):
    """The CEL expression is not valid."""

    CODE = "CelFailed"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class CelUndecided(DependencyError):
    """The expression failed on the current objects, e.g. on a status that is not written yet."""

    CODE = "CelUndecided"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class RenderTimeout(DependencyError):
    """The render took longer than its deadline."""

    CODE = "RenderTimeout"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class WorkersBusy(DependencyError):
    """The request waited too long for a worker."""

    CODE = "RenderWorkersBusy"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class WorkerDied(DependencyError):
    """The worker process ended during a request."""

    CODE = "RenderWorkerDied"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class NotStarted(WorkerDied):
    """No worker process can be started, or rendering was shut down; independent of the input."""


def kind_of(value: object) -> str:
    """Return the kind of a value for messages, because the value itself may be secret."""
    kinds = {type(None): "nothing", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "a mapping")


def shortened(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Put a message on one line and cut its middle if it is long: the start has the place, the end the reason."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    head = longest // 3
    return f"{line[:head]} … {line[head - longest :]}"
