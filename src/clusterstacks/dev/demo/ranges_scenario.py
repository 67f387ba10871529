"""The demo of ranges: a refused upgrade, the fix that the refusal names, and a plan followed step by step."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev import binaries
from clusterstacks.dev.demo.scenario import compare, examples, release_ready, stacks
from clusterstacks.dev.installation import apply_in_order, read_manifests
from clusterstacks.dev.provider import kinds
from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.pool import Pool
from clusterstacks.plan.compat.release_statements import read_candidates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.cluster_tree import Snapshot
    from clusterstacks.plan.compat.world import Candidate

    Planner = Callable[[Client, ReleaseName], Awaitable[Sequence[Manifest]]]
    from clusterstacks.dev.demo.await_state import LiveObject
    from clusterstacks.dev.demo.scenario import Changes
    from clusterstacks.model.objects import ObjectId

CLUSTER = ObjectKey("default", "ranged")
"""The Cluster of examples/ranges/cluster.yaml."""
NETWORK = "network"
"""The addon that must move first."""
_COMMAND = re.compile(r"kubectl (annotate [^\n]+)")
_WEBHOOK = "admission webhook"


@dataclass(frozen=True, slots=True)
class RangesStory:
    """Result of the demo of ranges."""

    passages: tuple[AddonChange, ...]
    """Accepted writes, in order."""
    served: str
    """The Kubernetes minor of the cluster's API server at the end."""
    seconds: Mapping[str, float]
    """Duration of each step by its name."""


@dataclass(frozen=True, slots=True)
class _Goal:
    """A wanted state of the cluster: Kubernetes version, class, and each addon's version."""

    kubernetes: str
    class_name: str
    addons: Mapping[str, str]

    def reached(self, seen: Snapshot) -> bool:
        """Return whether the control plane runs this version and the addons are delivered."""
        views = [cluster_view(one) for one in seen.clusters]
        running = all(view.control_plane_versions == (self.kubernetes,) for view in views)
        return running and bool(views) and any(map(self._delivered, seen.addons))

    def _delivered(self, addon: Manifest) -> bool:
        has = {text(one, "name"): text(one, "version") for one in mappings(addon, "status", "addons")}
        ready = at(addon, "status", "ready") is True
        return ready and has == self.addons and text(addon, "spec", "clusterStack") == self.class_name

    def after(self, step: Manifest) -> _Goal:
        """Return the state after a step of a plan."""
        if step["kind"] == "addon":
            addons = {**self.addons, step["name"]: step["to"]}
            return replace(self, addons={name: version for name, version in addons.items() if version})
        if step["kind"] == "class":
            class_name = parse_release(step["release"]).class_name
            return replace(self, class_name=class_name, kubernetes=step["kubernetes"])
        return replace(self, kubernetes=step["kubernetes"])


@dataclass(frozen=True, slots=True)
class RangesScenario:
    """Runs the demo in a running environment."""

    scene: Scene
    releases: Path
    """Directory of the operator's releases."""
    kubectl: Kubectl
    """Of the management cluster."""
    plan: Planner
    """Prints the plan to a release and returns its steps."""

    async def play(self) -> RangesStory:
        """Play all steps; an error names the step that was not done in time, or the unexpected answer."""
        for minor in ("1-35", "1-36"):
            source = stacks() / "ranges" / minor
            build_release(source, self.releases, cluster_stack="v1", cluster_addon="v1", node_image="v1")
        old, new = sorted(read_candidates(self.releases), key=lambda one: one.name)
        async with Pool() as pool:
            client = self.scene.management(pool)
            await self._begin(client, old, new)
            passages = Passages(self.scene, client, pool)
            await passages.begin()
            place = await self._take_the_way_out(client, old, new, passages)
            await self._follow_the_plan(client, new.name, place, passages)
            served = (await self.scene.workload(pool).version()).minor
        return RangesStory(tuple(passages.noted), f"v{served}", self.scene.seconds)

    async def _begin(self, client: Client, old: Candidate, new: Candidate) -> None:
        scene, both = self.scene, (old.name, new.name)
        scene.say(
            "A provider offers two releases that state ranges: kubectl apply -f examples/ranges/clusterstacks.yaml"
        )
        await apply_in_order(client, read_manifests(examples() / "ranges/clusterstacks.yaml"))
        await scene.until(client, "releases ready", lambda seen: all(release_ready(seen, one) for one in both))
        scene.say(f"A user creates a Cluster of class {old.name}: kubectl apply -f examples/ranges/cluster.yaml")
        await self._accepted("apply", "-f", str(_cluster_file()))
        await scene.until(client, "cluster with addons", _place_of(old).reached)

    async def _take_the_way_out(self, client: Client, old: Candidate, new: Candidate, passages: Passages) -> _Goal:
        scene, start, version = self.scene, _place_of(old), new.kubernetes.text
        manifest = _cluster_file().read_text().replace(start.kubernetes, version)
        scene.say(f"The user asks for {version} in that file and applies it again, which is refused:")
        command = await self._refused(manifest)
        scene.say(f"The user runs the command of the refusal: kubectl {command}")
        await self._accepted(*shlex.split(command))
        network = _place_of(new).addons[NETWORK]
        moved = replace(start, addons={**start.addons, NETWORK: network})
        await scene.until(client, "addon", moved.reached)
        await passages.note(f"Addon {NETWORK} to {network}, by its annotation:")
        scene.say(f"The same file, with {version}, is applied again and accepted")
        await self._accepted("apply", "-f-", manifest=manifest)
        arrived = replace(moved, kubernetes=version)
        await scene.until(client, "Kubernetes", arrived.reached)
        await passages.note(f"Kubernetes from {start.kubernetes} to {version}, in class {old.name.class_name}:")
        return arrived

    async def _follow_the_plan(self, client: Client, goal: ReleaseName, place: _Goal, passages: Passages) -> None:
        self.scene.say(f"The remaining upgrade is planned: csctl plan {CLUSTER} --to {goal} --releases {self.releases}")
        steps = await self.plan(client, goal)
        clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        for number, step in enumerate(steps, start=1):
            place = place.after(step)
            self.scene.say(f"Step {number} of the plan, its patch of the Cluster: {json.dumps(step['patch'])}")
            await client.merge_patch(clusters, CLUSTER.name, step["patch"], CLUSTER.namespace)
            await self.scene.until(client, f"step {number}", place.reached)
            name = f" {step['name']}" if step["name"] else ""
            await passages.note(f"Step {number}, {step['kind']}{name} to {step['to']}:")

    async def _refused(self, manifest: str) -> str:
        """Apply a manifest that must be refused; report the refusal and return the command it contains."""
        answer = await self.kubectl("apply", "-f-", manifest=manifest)
        command = _COMMAND.search(answer.text)
        if answer.done or _WEBHOOK not in answer.text or command is None:
            raise DependencyError(
                "NotRefused", f"the upgrade was not refused with a command that fixes it: {answer.text}"
            )
        self.scene.say(answer.text[answer.text.index(_WEBHOOK) :])
        return command[1]

    async def _accepted(self, *arguments: str, manifest: str = "") -> None:
        answer = await self.kubectl(*arguments, manifest=manifest)
        if not answer.done:
            raise DependencyError("Refused", answer.text)


def _place_of(candidate: Candidate) -> _Goal:
    """Return the state of a Cluster with everything of a release."""
    stated = candidate.compatibility
    addons = {addon: leading(addon, stated.of_addon(addon)).text for addon in stated.addons()} if stated else {}
    return _Goal(candidate.kubernetes.text, candidate.name.class_name, addons)


def _cluster_file() -> Path:
    return examples() / "ranges/cluster.yaml"


@dataclass(frozen=True, slots=True)
class AddonChange:
    """A write of the Cluster with its effect on the addon objects in the workload cluster."""

    title: str
    changes: Changes


class Passages:
    """Compares the addon objects after every write with those before it."""

    def __init__(self, scene: Scene, client: Client, pool: Pool) -> None:
        self._scene, self._client, self._pool = scene, client, pool
        self._objects: dict[ObjectId, LiveObject] = {}
        self._cluster: dict[str, str] = {}
        self.noted: list[AddonChange] = []

    async def begin(self) -> None:
        """Read the objects before the first write."""
        self._objects = await self._scene.read_back(self._client, self._pool)
        self._cluster = await self._uids()

    async def note(self, title: str) -> None:
        """Read the objects after a write; an object that is missing or belongs to another cluster is an error."""
        objects = await self._scene.read_back(self._client, self._pool)
        if await self._uids() != self._cluster:
            raise DependencyError("ClusterReplaced", f"{title}: infrastructure or control plane were replaced")
        self.noted.append(AddonChange(title, compare(self._objects, objects)))
        self._objects = objects

    async def _uids(self) -> dict[str, str]:
        found = {}
        for kind in (kinds.CLUSTER, kinds.CONTROL_PLANE):
            resource = await self._client.resource(kinds.GROUP, kind)
            for one in (await self._client.list(resource, self._scene.cluster.namespace)).items:
                found[f"{kind} {one['metadata']['name']}"] = one["metadata"]["uid"]
        return found


TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class KubectlOutput:
    """Output of kubectl, and whether it succeeded."""

    done: bool
    text: str


class Kubectl:
    """Runs kubectl in one management cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        program = binaries.resolve(["kubectl"])["kubectl"].path
        self._command = (str(program), f"--kubeconfig={kubeconfig}")

    async def __call__(self, *arguments: str, manifest: str = "") -> KubectlOutput:
        """Run it with ``manifest`` as standard input.

        Raises:
            DependencyError: It does not end in time.
        """
        return await asyncio.to_thread(self._run, arguments, manifest)

    def _run(self, arguments: tuple[str, ...], manifest: str) -> KubectlOutput:
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                input=manifest,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            message = f"'kubectl {arguments[0]}' did not end within {TIMEOUT_SECONDS} s"
            raise DependencyError("KubectlHangs", message) from None
        return KubectlOutput(done.returncode == 0, (done.stdout + done.stderr).strip())
