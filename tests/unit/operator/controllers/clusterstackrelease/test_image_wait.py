"""Waiting for the node images of a release."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.model.objects import rfc3339
from clusterstacks.operator.controllers.clusterstackrelease.image_wait import LONG, wait_for_images
from clusterstacks.operator.controllers.status_reconciler import StatusPatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.model.outcomes import Waiting

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
TYPE = "NodeImagesAvailable"


def entry(name: str, **more: str) -> Manifest:
    group, kind = IMAGE_KIND
    return {"group": group, "version": "v1alpha1", "kind": kind, "name": name, "status": "synced", "uid": name, **more}


def image(name: str, status: str = "", reason: str = "", message: str = "", *, seen: int = 1) -> Manifest:
    condition = {
        "type": "Available", "status": status, "reason": reason, "message": message, "observedGeneration": seen
    }  # fmt: skip
    return {
        "apiVersion": f"{IMAGE_KIND[0]}/v1alpha1",
        "kind": IMAGE_KIND[1],
        "metadata": {"name": name, "namespace": "stacks", "uid": name, "generation": 1},
        "status": {"conditions": [condition]} if status else {},
    }


def downloading(live: Manifest, message: str) -> Manifest:
    condition = {"type": "Downloading", "status": "True", "message": message}
    return {**live, "status": {"conditions": [*live["status"]["conditions"], condition]}}


async def waited(
    live: Mapping[str, Manifest], *entries: Manifest, before: Manifest | None = None
) -> tuple[StatusPatch, Waiting | None]:
    async def find(identity: ObjectId) -> Manifest | None:
        return live.get(identity.name)

    status = {"resources": list(entries), "conditions": [before] if before else []}
    patch = StatusPatch({"metadata": {"name": "r", "namespace": "stacks"}, "status": status})
    return patch, await wait_for_images(patch, find, NOW)


async def test_release_without_images_says_nothing_about_images() -> None:
    patch, waiting = await waited({}, {**entry("x"), "kind": "Other"})
    assert waiting is None
    assert patch.condition(TYPE) is None
    assert "nodeImages" not in patch.status


async def test_release_waits_for_each_image_and_counts_those_that_are_there() -> None:
    live = {"one": image("one", "True", "Success"), "two": image("two", "False", "Progressing", "Waiting for\nGlance")}
    patch, waiting = await waited(live, entry("one"), entry("two"))
    assert patch.status["nodeImages"] == "1/2"
    assert waiting is not None
    assert (waiting.reason, waiting.message) == (
        "NodeImagesPending", "Image two is not available yet: Waiting for Glance"
    )  # fmt: skip
    patch, waiting = await waited({**live, "two": image("two", "True", "Success")}, entry("one"), entry("two"))
    assert (waiting, patch.status["nodeImages"], patch.holds(TYPE)) == (None, "2/2", True)


@pytest.mark.parametrize(
    ("live", "reason", "words"),
    [
        (
            image("one"),
            "NodeImagesPending",
            "has no state yet: check that the OpenStack Resource Controller (ORC) runs; it downloads one",
        ),
        (image("one", "True", "Success", seen=0), "NodeImagesPending", "has no state yet"),
        (None, "NodeImagesPending", "does not exist; it is applied again"),
        ({**image("one", "True"), "metadata": {"uid": "another", "generation": 1}}, "NodeImagesPending", "not exist"),
        (
            image("one", "Unknown", "TransientError", "keystone: 503"),
            "NodeImagesPending",
            "not available yet: keystone",
        ),
        (
            image("one", "False", "TransientError", f"error requesting http://x:9444/images/{'0' * 64}/stacks/1: EOF"),
            "NodeImagesPending",
            "error requesting http://x:9444/images/.../stacks/1: EOF",
        ),
        (
            image("one", "False", "InvalidConfiguration", "Unable to download content after 5 attempts"),
            "NodeImagesFailed",
            "after 5 attempts: ORC does not try again: remove the cause, then delete the Image to begin again",
        ),
        (image("one", "False", "UnrecoverableError", "deleted from OpenStack"), "NodeImagesFailed", "delete the Image"),
        (
            downloading(image("one", "False", "InvalidConfiguration", "after 5 attempts"), "hash verification failed"),
            "NodeImagesFailed",
            "Image one: after 5 attempts: hash verification failed: ORC does not try again",
        ),
        (
            downloading(image("one", "False", "Progressing", "Waiting to be ready"), "Downloaded 20MB of 300MB"),
            "NodeImagesPending",
            "Image one is not available yet: Downloaded 20MB of 300MB",
        ),
        (
            downloading(image("one", "False", "TransientError", "connection refused"), "Starting image upload"),
            "NodeImagesPending",
            "Image one is not available yet: connection refused",
        ),
        (
            image("one", "False", "TransientError", f"error requesting {'u' * 300}: no such host"),
            "NodeImagesPending",
            ": no such host",
        ),
    ],
)
async def test_each_state_of_an_image_is_told_with_its_remedy(live: Manifest | None, reason: str, words: str) -> None:
    patch, waiting = await waited({"one": live} if live else {}, entry("one"))
    assert waiting is not None
    assert waiting.reason == reason
    assert words in waiting.message
    assert patch.status["nodeImages"] == "0/1"


@pytest.mark.parametrize(("age", "reason"), [(LONG, "NodeImagesPending"), (LONG * 1.1, "NodeImagesStuck")])
async def test_images_that_are_pending_for_more_than_an_hour_are_stuck(age: timedelta, reason: str) -> None:
    before = {"type": TYPE, "status": "False", "reason": "x", "lastTransitionTime": rfc3339(NOW - age)}
    _, waiting = await waited({"one": image("one", "False", "Progressing", "queued")}, entry("one"), before=before)
    assert waiting is not None
    assert waiting.reason == reason
    assert ("check the log of ORC" in waiting.message) is (reason == "NodeImagesStuck")


async def test_hostile_messages_and_forty_images_keep_the_message_short() -> None:
    live = {f"i{number}": image(f"i{number}", "False", "TransientError", "x" * 30_000) for number in range(40)}
    _, waiting = await waited(live, *map(entry, live))
    assert waiting is not None
    assert "and 37 more" in waiting.message
    assert len(waiting.message) < 1_200


async def test_image_that_a_user_listed_in_another_namespace_is_not_read() -> None:
    _, waiting = await waited({}, entry("one", namespace="elsewhere"))
    assert waiting is None
