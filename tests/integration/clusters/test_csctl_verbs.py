"""The daily verbs of csctl against a real API server with the real operator."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import yaml

from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, GROUP, Kind
from clusterstacks.release.sources.signature_store import write_new_key
from tests.support.builders.manifests import named
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

DEADLINE = 250


async def start(world: World, *arguments: str, kubeconfig: Path | None = None) -> asyncio.subprocess.Process:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    # Background jobs of shells ignore SIGINT, and a test run may be such a job.
    program = ("env", "--default-signal=INT", sys.executable, "-m", "clusterstacks.csctl.main")
    return await asyncio.create_subprocess_exec(
        *(*program, *arguments, f"--kubeconfig={kubeconfig or world.management_kubeconfig}"),
        env={**kept, "XDG_DATA_HOME": str(world.cache)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def csctl(world: World, *arguments: str, code: int = 0, kubeconfig: Path | None = None) -> str:
    """Return the output of csctl; after a failure, its messages."""
    process = await start(world, *arguments, kubeconfig=kubeconfig)
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == code, err.decode()
    return err.decode() if code else out.decode()


def row(table: str, name: str) -> list[str]:
    """Return the cells of the row in which a cell is this name."""
    (found,) = [cells for line in table.splitlines()[1:] if name in (cells := line.split())]
    return found


async def delivered(world: World) -> ReleaseName:
    """Create a ClusterStack with one release, and Cluster ``one`` with its addons."""
    release = world.stack.release("v1")
    world.publish(release, world.stack.files("v1", {"dns": templates(config_map("dns"))}))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    await world.release_ready(release)
    await world.cluster("one", release.class_name)
    await world.addons_ready("one", release.class_name)
    return release


async def page_shows_cluster(world: World) -> None:
    """Check that csctl ui prints an address, answers with the Cluster, and ends at Ctrl-C."""
    process = await start(world, "ui", "--no-open", "-n", world.namespace)
    assert process.stdout is not None
    address = (await asyncio.wait_for(process.stdout.readline(), DEADLINE)).decode().strip()
    origin = address.partition("?")[0]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(f"{origin}api/fleet") as answer:
            assert answer.status == 401
        async with browser.get(address) as answer:
            assert answer.status == 200
        async with browser.get(f"{origin}api/fleet") as answer:
            (cluster,) = (await answer.json())["clusters"]
        async with browser.get(f"{origin}api/upgrade?namespace={world.namespace}&name=one&to=v1.35.4") as answer:
            assert (await answer.json())["allowed"]
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 130
    assert (cluster["namespace"], cluster["name"], cluster["state"]) == (world.namespace, "one", "done")


async def test_every_day_verbs_describe_a_live_cluster(world: World) -> None:
    here = ("-n", world.namespace)
    async with world.operator():
        release = await delivered(world)

        clusters = await csctl(world, "status", *here)
        assert row(clusters, "one") == ["✓", world.namespace, "one", "True", release.release, "v1.35.4"]
        below = clusters.splitlines()[2:]  # after the end of support of the minor, with a line about it
        assert below[0] == f"1 Cluster, none troubled; releases: {release} (1)"
        assert world.namespace in await csctl(world, "status")
        assert (await csctl(world, "status", *here, "--troubled")).splitlines() == below
        assert json.loads(await csctl(world, "status", *here, "-l", "team=none", "-o", "json")) == []
        assert await csctl(world, "status", *here, "-l", "team=none") == ""

        tree = (await csctl(world, "status", f"{world.namespace}/one")).splitlines()
        assert tree[0] == (
            f"✓ Cluster {world.namespace}/one  class {release.class_name}, release v1, Kubernetes v1.35.4"
        )
        assert "  ✓ control plane  v1.35.4" in tree
        assert f"    ✓ dns  1 object of {release}" in tree
        assert any(line.startswith("  ✓ last change  ") for line in tree)
        document = json.loads(await csctl(world, "status", f"{world.namespace}/one", "-o", "json"))
        assert (document["ready"], document["addons"]) == (True, [{"name": "dns", "version": release.release}])
        assert "two does not exist" in await csctl(world, "status", "two", *here, code=2)
        await page_shows_cluster(world)
        await cluster_is_explained(world, release)


async def cluster_is_explained(world: World, release: ReleaseName) -> None:
    """Check the verbs about one Cluster that read its workload cluster or its release."""
    one, as_json = ("one", "-n", world.namespace), ("-o", "json")

    (origin,) = json.loads(await csctl(world, "trace", *one, "configmap", "kube-system/dns", *as_json))
    assert (origin["object"], origin["addon"]) == ("ConfigMap kube-system/dns", "dns")
    assert (origin["release"], origin["source"]) == (release.release, "that of the operator")
    assert origin["digest"].startswith("sha256:")
    assert origin["signature"].startswith("not checked")
    assert "has delivered Secret dns: check" in await csctl(world, "trace", *one, "Secret", "dns", code=2)

    (addon,) = json.loads(await csctl(world, "values", *one, "--releases", str(world.releases), *as_json))
    assert (addon["addon"], addon["release"], addon["values"]) == ("dns", release.release, {})

    assert "server: https://127.0.0.1:" in await csctl(world, "kubeconfig", *one)

    new = await csctl(world, "generate", "cluster", "new", "--stack", world.stack.word, "-n", world.namespace)
    topology = yaml.safe_load(new)["spec"]["topology"]
    assert (topology["classRef"], topology["version"]) == ({"name": release.class_name}, "v1.35.4")


def three_contexts(world: World, file: Path) -> Path:
    """Write a kubeconfig with two contexts of the management cluster, and one that does not answer."""
    config = yaml.safe_load(world.management_kubeconfig.read_text())
    context = config["contexts"][0]["context"]
    gone = {"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}
    silent = {**context, "cluster": "gone"}
    contexts = {"here": context, "there": context, "gone": silent, "away": silent}
    config["clusters"].append(gone)
    config["contexts"] = [{"name": name, "context": one} for name, one in contexts.items()]
    file.write_text(yaml.safe_dump(config))
    return file


async def test_status_of_several_contexts_shows_the_clusters_of_those_that_answer(world: World, tmp_path: Path) -> None:
    file = three_contexts(world, tmp_path / "kubeconfig")
    await world.cluster("one", world.stack.release("v1").class_name, ready=False)
    status = ("status", "-n", world.namespace, "--context=here", "--context=there")

    lines = (await csctl(world, *status, kubeconfig=file)).splitlines()
    document = json.loads(await csctl(world, *status, "-o", "json", kubeconfig=file))
    process = await start(world, *status, "--context=gone", kubeconfig=file)
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    unread = await start(world, "status", "--context=gone", "--context=away", kubeconfig=file)
    nothing, failures = await asyncio.wait_for(unread.communicate(), DEADLINE)

    header, here, there, count = (line.split() for line in lines)
    assert (header[0], here[1], there[1]) == ("CONTEXT", "here", "there")
    assert here[2:] == there[2:]
    assert here[2:5] == [world.namespace, "one", "Unknown"]
    assert count[:4] == ["2", "Clusters,", "2", "troubled;"]
    assert [one["context"] for one in document] == ["here", "there"]
    assert (process.returncode, out.decode().splitlines()) == (1, lines)
    assert "1 of 3 management clusters could not be read" in err.decode()
    assert "gone: " in err.decode()
    assert (unread.returncode, nothing) == (1, b"")
    assert "No Cluster" not in failures.decode()


async def test_version_prints_those_of_the_management_cluster_after_the_lines_of_csctl(world: World) -> None:
    labels = {"app.kubernetes.io/name": "cluster-stack-operator"}
    container = {"name": "operator", "image": "registry.example.org:5000/kaas/operator:0.1.0"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    metadata = {"name": "operator", "namespace": world.namespace, "labels": labels}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    operator = await world.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    account = {"kind": "ServiceAccount", "name": "default", "namespace": world.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", world.namespace)
    await world.create({**binding, "roleRef": role, "subjects": [account]})

    lines = (await csctl(world, "version")).splitlines()
    await world.delete(operator)

    assert [line.partition(":")[0] for line in lines[:2]] == ["csctl version", "commit"]
    assert f"operator: 0.1.0 in namespace {world.namespace}, 0 of 1 replicas available" in lines
    assert f"Kubernetes: {(await world.client.version()).git_version}" in lines
    assert any(line.startswith("supported Kubernetes: 1.30 to ") for line in lines)
    assert len((await csctl(world, "version", "--client")).splitlines()) == 2


@pytest.mark.regression("U-19")
async def test_reconcile_restores_objects_and_suspend_pauses_until_resume(world: World) -> None:
    key = f"{world.namespace}/one"
    async with world.operator(drift_interval=None):
        await delivered(world)
        resource = await world.workload.resource("", "ConfigMap")
        await world.workload.delete(resource, "dns", "kube-system")

        compared, *restored = (await csctl(world, "reconcile", key)).splitlines()
        assert compared == f"All addon objects of Cluster {key} were compared."
        assert restored[0] == "Restored by the operator:"
        assert restored[1].startswith("  ConfigMap kube-system/dns was deleted, restored 2")
        assert await world.delivered("dns") is not None

        await csctl(world, "suspend", key)
        assert (await world.addon("one"))["spec"]["paused"] is True
        assert "csctl resume" in await csctl(world, "reconcile", key, code=2)
        assert "Requested" in await csctl(world, "reconcile", key, "--no-wait")
        await csctl(world, "resume", key)
        await world.until("ClusterAddon", "cluster-addon-one", lambda addon: not addon["spec"].get("paused"))
        assert await csctl(world, "reconcile", key)

        await world.at_rest()
        events = (await csctl(world, "status", key)).partition("LAST SEEN")[2]
        assert row(events, "AddonsDelivered")[1:4] == ["Normal", "AddonsDelivered", "Cluster/one"]
        assert json.loads(await csctl(world, "status", key, "-o", "json"))["events"]

        other = await world.cluster("other", "mine", ready=False)
        assert "has no ClusterAddon" in await csctl(world, "suspend", f"{world.namespace}/other", code=2)
        await world.delete(other)


async def test_watched_status_in_a_pipe_prints_the_lines_that_change(world: World) -> None:
    async with world.operator():
        await delivered(world)
        process = await start(world, "status", f"{world.namespace}/one", "--watch")
        assert process.stdout is not None
        seen = ""

        async with asyncio.timeout(DEADLINE):
            while "last change" not in seen:
                seen += (await process.stdout.readline()).decode()
            await world.patch(await world.addon("one"), {"spec": {"paused": True}})
            while "waits for  Paused" not in seen:
                line = (await process.stdout.readline()).decode()
                assert line, "csctl ended"
                seen += line
            process.send_signal(signal.SIGINT)
            await process.communicate()
        assert process.returncode == 130
        assert seen.count("control plane") == 1


async def test_watched_list_of_clusters_prints_a_line_again_when_it_changes(world: World) -> None:
    async with world.operator():
        await delivered(world)
        process = await start(world, "status", "-n", world.namespace, "--watch")
        assert process.stdout is not None

        async with asyncio.timeout(DEADLINE):
            assert f"✓ Cluster {world.namespace}/one" in (await process.stdout.readline()).decode()
            await world.patch(await world.addon("one"), {"spec": {"paused": True}})
            line = ""
            while f"… Cluster {world.namespace}/one" not in line:
                line = (await process.stdout.readline()).decode()
                assert line, "csctl ended"
            assert "Paused" in line
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
        assert (process.returncode, err.strip()) == (130, b"interrupted")


def attester_of(world: World, file: Path) -> Path:
    """Write the kubeconfig of a user whose namespace is that of the world."""
    config = yaml.safe_load(world.management_kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "attester"
    config["contexts"][0]["context"]["namespace"] = world.namespace
    file.write_text(yaml.safe_dump(config))
    return file


async def may_read_one_namespace(world: World) -> None:
    """Let the attester read the namespace of the world, and no other."""
    rules = [
        {"apiGroups": [CLUSTER_API_GROUP], "resources": ["clusters"], "verbs": ["get", "list"]},
        {"apiGroups": [GROUP], "resources": ["clusteraddons", "clusterstackreleases"], "verbs": ["get", "list"]},
    ]
    rbac, role = "rbac.authorization.k8s.io", {"kind": "Role", "name": "attester"}
    await world.create({**named(f"{rbac}/v1", "Role", "attester", world.namespace), "rules": rules})
    binding = named(f"{rbac}/v1", "RoleBinding", "attester", world.namespace)
    user = {"apiGroup": rbac, "kind": "User", "name": "attester"}
    await world.create({**binding, "roleRef": {"apiGroup": rbac, **role}, "subjects": [user]})


async def test_stage_states_what_its_management_cluster_shows(world: World, tmp_path: Path) -> None:
    key, attester = str(tmp_path / "stage"), attester_of(world, tmp_path / "kubeconfig")
    report = write_new_key(Path(key))  # any file
    await may_read_one_namespace(world)
    async with world.operator():
        release = await delivered(world)
        directory = str(world.releases / release.release)
        attest = ("attest", directory, "--stage", "staging", "--key", key)
        await csctl(world, "reconcile", f"{world.namespace}/one")
        await world.until(Kind.CLUSTER_ADDON, "cluster-addon-one", is_well)

        told = await csctl(world, *attest, "--file", str(report), kubeconfig=attester)
        assert told.startswith(f"{release} passed in stage staging: 1 cluster (1 with v1.35.4), ready, healthy and in ")
        assert f"{directory}.intoto.jsonl" in told
        await world.cluster("two", release.class_name, ready=False)
        refused = await csctl(world, *attest, kubeconfig=attester, code=2)
        assert (
            f"{release} has not passed stage staging: {world.namespace}/two: the addons of the release are" in refused
        )

        stated = json.loads(await csctl(world, *attest, "--verdict", "failed", "-o", "json", kubeconfig=attester))
        assert stated["verificationResult"] == "FAILED"
        assert stated["notRead"] == [
            f"you may not list the {kind}s of all namespaces: only those of namespace {world.namespace} are shown"
            for kind in ("ClusterAddon", "ClusterStackRelease", "Cluster")
        ]
        assert stated["inputAttestations"] == []


def is_well(addon: Manifest) -> bool:
    return all(condition_of(addon, kind).get("status") == "True" for kind in ("Ready", "Healthy", "InSync"))
