"""What a render may end with.

::

    SpecError
    ├── RenderFailed    the chart, its values or a template is wrong: Helm's words, with template and line
    └── CelFailed       the expression cannot be compiled, or it or its objects are too large
    DependencyError
    ├── CelUndecided    the expression asks for something the objects do not say (yet)
    ├── RenderTimeout   the deadline passed and the worker was killed
    ├── WorkersBusy     every worker was busy for too long
    └── WorkerDied      the worker ended by itself, e.g. out of memory
        └── NotStarted  no worker can be started, whatever the input is

Every message begins with the label the caller gave, e.g. ``addon cni of openstack-scs-1-35-v2``.
"""

from __future__ import annotations

from clusterstacks.domain.errors import DependencyError, SpecError

LONGEST_MESSAGE = 1500
"""Characters of Helm's words kept (arbitrary: conditions are read by people)."""


class RenderFailed(SpecError):
    """The chart, its values or a template must be mended."""

    CODE = "TemplateFailed"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class CelFailed(SpecError):
    """The CEL expression must be mended."""

    CODE = "CelFailed"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class CelUndecided(DependencyError):
    """The expression failed on the objects as they are now, e.g. a status that nobody has written yet."""

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
    """The worker process ended in the middle of a request."""

    CODE = "RenderWorkerDied"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class NotStarted(WorkerDied):
    """No worker process can be started, or rendering has been shut down; this says nothing about the input."""


def kind_of(value: object) -> str:
    """Call a value by its kind: what it says may be secret."""
    kinds = {type(None): "nothing", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "a mapping")


def shortened(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Put a message on one line and cut out its middle when long: its head says where, its tail says why."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    head = longest // 3
    return f"{line[:head]} … {line[head - longest :]}"
