"""LIVE-H5: random plans, executed with the printed commands."""

from __future__ import annotations

import asyncio
import json
import shlex
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.clusters.test_plans import csctl, nodes_roll
from tests.support.running.admission import guarded, of_minor, ranged
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from tests.support.running.world import World

PLANS = 10
"""Plans to follow, as the issue of the finding asks for."""
SEED = 5
QUESTIONS = 40
"""Targets to ask for at most; some cannot be reached, as Kubernetes never goes down."""


@pytest.mark.regression("LIVE-H5")
@pytest.mark.timeout(900)
async def test_printed_commands_of_ten_random_plans_reach_their_targets(world: World) -> None:
    random = Random(SEED)
    names = random_releases(world, random)
    first, followed = names[0], 0
    async with guarded(world):
        for minor in ("1.35", "1.36", "1.37"):
            manifest = of_minor(world.stack, minor).manifest(world.namespace, "v1", "v2", "v3")
            manifest["metadata"]["name"] += minor.replace(".", "-")
            await world.create(manifest)
        for name in names:
            await world.release_ready(name)
        await world.cluster("one", first.class_name, version="v1.35.4")
        await world.addons_ready("one", first.class_name)
        async with nodes_roll(world, "one"):
            # First within the lowest minor, then anywhere: the highest is never left again.
            for target in [*random.choices(names[:3], k=QUESTIONS // 4), *random.choices(names, k=QUESTIONS)]:
                followed += await follow(world, target)
                if followed == PLANS:
                    break
    assert followed == PLANS


async def follow(world: World, target: ReleaseName) -> bool:
    """Request a plan and execute what it prints; False if there is none, or nothing to do."""
    key, given = f"{world.namespace}/one", f"--releases={world.releases}"
    code, text, err = await csctl(world, "plan", key, "--to", target.release, given)
    assert code in {0, 3}, err
    commands = [line.strip() for line in text.splitlines() if line.strip().startswith("kubectl ")]
    kubectl = Kubectl(world.management_kubeconfig, world.namespace)
    for command in commands:
        tried = await asyncio.to_thread(kubectl.tried, *shlex.split(command)[1:])
        assert tried.returncode == 0, f"{command}\n{tried.stdout}{tried.stderr}\nof:\n{text}"
    return bool(commands)


def random_releases(world: World, random: Random) -> list[ReleaseName]:
    """Three releases of each of three minors, whose addons share versions, and are not there in each of them."""
    ranges: dict[tuple[str, str], str] = {}
    found = []
    for minor in (35, 36, 37):
        stack = of_minor(world.stack, f"1.{minor}")
        for version in ("v1", "v2", "v3"):
            addons: dict[str, Any] = {}
            for addon in ("cilium", "csi", "dns"):
                software = f"1.{minor - 35 + random.randint(0, 1)}.0"
                narrow = f">=1.{random.randint(34, minor)} <1.{random.randint(minor + 1, 39)}"
                if random.random() < 0.8 or not addons:
                    addons[addon] = (software, ranges.setdefault((addon, software), narrow))
            name, files = ranged(stack, version, f"v1.{minor}.4", f">=1.{minor - 1} <1.{minor + 2}", **addons)
            stated = json.loads(files["compatibility.yaml"])
            for component in stated["components"]:
                component["upgrade"] = {"downgrade": True}
            world.publish(name, {**files, "compatibility.yaml": json.dumps(stated).encode()})
            found.append(name)
    return found
