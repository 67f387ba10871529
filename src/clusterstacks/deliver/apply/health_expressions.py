"""Judges live objects by the CEL expressions of their annotations.

The expressions are part of the delivered manifest and are read from the live object, together with its status. A user
of the workload cluster who edits them changes only what is said about this object, and a sweep restores them. So an
expression may be hostile: it runs in a render worker with limits of size, memory and time, and only after the object
has changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.health_rules import Health, HealthState, lifecycle_health, stale_health
from clusterstacks.deliver.apply.live_fields import Malformed, one_line
from clusterstacks.deliver.apply.policy import HEALTH_ANNOTATION, HEALTH_FAILED_ANNOTATION
from clusterstacks.deliver.render.errors import CelFailed, CelUndecided, RenderTimeout, WorkerDied, WorkersBusy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest, ObjectId

TIME: Final = timedelta(seconds=10)
"""Time of a read after which no further evaluation begins (arbitrary: some 2000 evaluations of small objects)."""

VARIABLE: Final = "self"
"""The object in an expression, as in the validation rules of a CustomResourceDefinition."""


@dataclass(slots=True)
class HealthExpressions:
    """Judges the objects of one cluster, and remembers their health until they change.

    Args:
        renderer: Evaluates the expressions.
    """

    renderer: Renderer
    _known: dict[ObjectId, tuple[tuple[str, str], Health]] = field(default_factory=dict, init=False)
    """By object, its uid and resource version, and its health by the expressions."""

    @property
    def objects(self) -> Collection[ObjectId]:
        """The objects that have expressions; a sweep reads them each time, because an evaluation may be missing."""
        return self._known.keys()

    async def judge(self, objects: Mapping[ObjectId, Manifest], now: datetime) -> dict[ObjectId, Health]:
        """Return the health of the objects that have expressions.

        Args:
            objects: All live objects of the cluster, read whole; what is remembered of others is forgotten.
            now: Current time, for states from before a delivery.
        """
        end = asyncio.get_running_loop().time() + TIME.total_seconds()
        judged: dict[ObjectId, Health] = {}
        before, self._known = self._known, {}
        for identity, live in objects.items():
            current, failed = _expressions(live)
            if not current:
                continue
            state = _state(live)
            known_state, health = before.get(identity, (("", ""), _NOT_EVALUATED))
            early = _lifecycle(live, now)
            if early is None and known_state != state and asyncio.get_running_loop().time() < end:
                try:
                    health = await self._evaluate(live, current, failed)
                    known_state = state
                except (RenderTimeout, WorkerDied) as error:
                    health = Health(HealthState.UNKNOWN, "HealthNotEvaluated", one_line(error.message))
                    known_state = ("", "")  # evaluated again at the next read; the renderer delays repetitions
                except WorkersBusy:
                    pass  # what was known remains until a worker is free
            judged[identity] = early or health
            self._known[identity] = (known_state, health)
        return judged

    async def _evaluate(self, live: Manifest, current: str, failed: str) -> Health:
        """Evaluate the expressions of one object.

        Raises:
            RenderTimeout, WorkerDied: An evaluation took too long or too much memory.
            WorkersBusy: No worker was free.
        """
        variables = {VARIABLE: _without_managed_fields(live)}
        try:
            if failed and await self._holds(failed, variables):
                return Health(HealthState.FAILED, "HealthFailed", one_line(f"this holds: {failed}"))
            if await self.renderer.holds(current, variables, label=_LABEL):
                return Health(HealthState.CURRENT)
        except CelUndecided as error:
            # Before its first status an object lacks what the expression reads; afterwards it may lack that for ever.
            state = HealthState.UNKNOWN if live.get("status") else HealthState.IN_PROGRESS
            return Health(state, "HealthUndecided", one_line(error.message))
        except CelFailed as error:
            return Health(HealthState.UNKNOWN, "HealthExpressionInvalid", one_line(error.message))
        return Health(HealthState.IN_PROGRESS, "HealthNotCurrent", one_line(f"it waits until this holds: {current}"))

    async def _holds(self, failed: str, variables: Mapping[str, Manifest]) -> bool:
        """Return whether an object has failed; an object without the fields that tell has not."""
        try:
            return await self.renderer.holds(failed, variables, label=_LABEL)
        except CelUndecided:
            return False


_LABEL: Final = "its health"
_NOT_EVALUATED: Final = Health(HealthState.UNKNOWN, "HealthNotEvaluated", "its health expression was not evaluated yet")


def _expressions(live: Manifest) -> tuple[str, str]:
    annotations = live["metadata"].get("annotations")
    if not isinstance(annotations, dict):
        return "", ""
    current, failed = annotations.get(HEALTH_ANNOTATION), annotations.get(HEALTH_FAILED_ANNOTATION)
    return current if isinstance(current, str) else "", failed if isinstance(failed, str) else ""


def _state(live: Manifest) -> tuple[str, str]:
    metadata = live["metadata"]
    return str(metadata.get("uid")), str(metadata.get("resourceVersion"))


def _lifecycle(live: Manifest, now: datetime) -> Health | None:
    try:
        return lifecycle_health(live) or stale_health(live, now)
    except Malformed:
        return None  # the expression decides, because its author knows the kind


def _without_managed_fields(live: Manifest) -> Manifest:
    metadata = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    return {**live, "metadata": metadata}
