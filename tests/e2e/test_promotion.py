"""Two management clusters that know nothing of each other: production takes what staging has proven.

``make demo-promote`` runs this test and shows its commands.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.builders.e2e_objects import cluster, namespace, stack
from tests.support.builders.hooked_stack import HookedStack
from tests.support.running.kubectl import Kubectl
from tests.support.running.local_environment import local_environment
from tests.support.servers.registries import running_registry
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.running.local_environment import Local
    from tests.support.servers.registries import RegistryServer

HOME, ISLAND = "promotion", "island"
STACK = HookedStack(name="promoted", hooks={}, installed=["settings"])
WAIT = "--timeout=120s"


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A second management cluster."""
    with local_environment(tmp_path_factory.mktemp("production")) as environment:
        yield environment


def directory(path: Path) -> Path:
    path.mkdir()
    return path


class Story:
    """Tells what happens, and runs csctl as its users do."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def say(self, sentence: str) -> None:
        print(f"\n{sentence}", flush=True)  # noqa: T201 - the demo

    def csctl(self, *arguments: object, kubeconfig: Path | None = None) -> str:
        """Run csctl in the directory of the story, show it, expect success and return its output."""
        command = [str(one) for one in arguments]
        self.say(f"$ csctl {shlex.join(command)}{' --context=staging' if kubeconfig else ''}")
        done = subprocess.run(
            [
                Path(sys.executable).with_name("csctl"),
                *command,
                *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
            ],
            cwd=self.root,
            env={**os.environ, "DOCKER_CONFIG": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        print(done.stdout.rstrip(), flush=True)  # noqa: T201 - the demo
        return done.stdout


def from_registry(registry: RegistryServer, **more: Any) -> dict[str, Any]:
    return {"oci": {"repository": f"{registry.host}/stacks", "plainHTTP": True}, "interval": "1s", **more}


def publish(version: str, story: Story, registry: RegistryServer) -> str:
    name = STACK.build("v1.35.4", story.root / version, story.root / "releases", version)
    story.csctl("push", f"releases/{name}", f"{registry.host}/stacks")
    return name.release


async def message(kubectl: Kubectl, release: str, words: str) -> str:
    """Wait until the release says something."""

    async def look() -> str:
        found = kubectl.get("clusterstackrelease", release)
        conditions = {one["type"]: one.get("message", "") for one in found.get("status", {}).get("conditions", [])}
        assert words in conditions.get("Ready", ""), conditions
        return str(conditions["Ready"])

    text = await eventually(look, about=f"{release}: {words}")
    print(f"$ kubectl get clusterstackrelease {release}\nFalse  EvidenceRequired  {text}", flush=True)  # noqa: T201
    return text


def ready(kubectl: Kubectl, release: str) -> None:
    kubectl("wait", "clusterstackrelease", release, "--for=create", WAIT)
    kubectl("wait", "clusterstackrelease", release, "--for=condition=Ready", WAIT)
    print("$ kubectl get clusterstackreleases", kubectl("get", "clusterstackreleases"), sep="\n")  # noqa: T201


def on_release(kubectl: Kubectl, release: str, story: Story, kubeconfig: Path) -> None:
    """Wait until the Cluster runs well on a release; its objects are compared now instead of at the next interval."""
    kubectl("wait", "clusteraddon/cluster-addon-one", "--for=create", WAIT)
    kubectl("wait", "clusteraddon/cluster-addon-one", f"--for=jsonpath={{.spec.clusterStack}}={release}", WAIT)
    kubectl("wait", "clusteraddon/cluster-addon-one", "--for=condition=Ready", WAIT)
    story.csctl("reconcile", f"{HOME}/one", kubeconfig=kubeconfig)
    for condition in ("Healthy", "InSync"):
        kubectl("wait", "clusteraddon/cluster-addon-one", f"--for=condition={condition}", WAIT)


async def test_production_takes_what_staging_has_proven(local: Local, production: Local, tmp_path: Path) -> None:
    staging, prod = Kubectl(local.state.kubeconfig, HOME), Kubectl(production.state.kubeconfig, HOME)
    island = Kubectl(production.state.kubeconfig, ISLAND)
    story = Story(tmp_path)
    for kubectl, name in ((staging, HOME), (prod, HOME), (island, ISLAND)):
        kubectl("create", "-f-", manifest=namespace(name))
    with (
        running_registry(directory(tmp_path / "registry")) as registry,
        running_registry(directory(tmp_path / "island")) as mirror,
        local.operator(HOME, "--allowed-sources=127.0.0.1:*"),
        production.operator("", "--allowed-sources=127.0.0.1:*"),
    ):
        story.csctl("sign", "--new-key", "staging.key")
        public = (tmp_path / "staging.key.pub").read_text()
        stage = {"stage": "staging", "keys": [{"publicKey": public}], "upgradesFrom": ["v1"]}
        evidence = {"evidence": [stage]}

        story.say("v1 is published; staging runs it in a Cluster.")
        first = publish("v1", story, registry)
        spec: dict[str, Any] = {"name": STACK.name, "autoSubscribe": True}
        staging("create", "-f-", manifest=stack(HOME, source=from_registry(registry), **spec))
        ready(staging, first)
        staging("create", "-f-", manifest=cluster(HOME, "one", first))
        on_release(staging, first, story, local.state.kubeconfig)

        story.say("v2 is published. Production requires evidence of staging.")
        second = publish("v2", story, registry)
        prod("create", "-f-", manifest=stack(HOME, source=from_registry(registry, verification=evidence), **spec))
        refused = await message(prod, second, "v2 has no evidence")
        place = f"oci://{registry.host}/stacks:{second}"
        assert refused == f"v2 has no evidence of stage staging: csctl attest {place} --stage staging --key KEY"

        story.say("Staging upgrades its Cluster to v2, and states what it sees.")
        ready(staging, second)
        patch = f'{{"spec": {{"topology": {{"classRef": {{"name": "{second}"}}}}}}}}'
        staging("patch", "cluster", "one", "--type=merge", "--patch", patch)
        on_release(staging, second, story, local.state.kubeconfig)
        attest = ("attest", "--stage", "staging", "--key", "staging.key")
        told = story.csctl(*attest, f"{registry.host}/stacks:{second}", kubeconfig=local.state.kubeconfig)
        assert f"{second} passed in stage staging: 1 cluster (1 with v1.35.4), ready, healthy and in sync for" in told
        assert f"1 upgrade from {first} Delivered" in told

        story.say("Production takes v2.")
        ready(prod, second)

        story.say("v3 fails in staging: the line stops.")
        third = publish("v3", story, registry)
        await message(prod, third, "v3 has no evidence")
        story.csctl(
            *attest, f"{registry.host}/stacks:{third}", "--verdict", "failed", kubeconfig=local.state.kubeconfig
        )
        await message(prod, third, "v3 failed in stage staging")
        listed = story.csctl("list", f"{registry.host}/stacks", "--evidence", "--key", "staging.key.pub")
        assert [line.split()[5:7] for line in listed.splitlines()[1:]] == [
            [],
            ["staging", "passed,"],
            ["staging", "failed"],
        ]

        story.say("A disk carries the releases with their evidence to a site without any connection.")
        story.csctl("copy", "--all", f"{registry.host}/stacks", "oci-layout:disk")
        registry.stop()
        story.csctl("copy", "--all", "oci-layout:disk", f"{mirror.host}/stacks")
        island("create", "-f-", manifest=stack(ISLAND, source=from_registry(mirror, verification=evidence), **spec))
        ready(island, second)
        await message(island, third, "v3 failed in stage staging")
        story.say("Production keeps v2 although its registry is gone.")
        ready(prod, second)
        for kubectl in (staging, prod, island):
            kubectl("delete", "clusters,clusterstacks", "--all", WAIT)
