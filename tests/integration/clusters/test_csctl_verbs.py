"""The daily verbs of csctl against a real API server with the real operator."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import aiohttp
import yaml

from tests.support.builders.manifests import named
from tests.support.builders.stacks import config_map, templates

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
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
        async with browser.get(f"{origin}api/objects?namespace={world.namespace}&name=one") as answer:
            (owner,) = (await answer.json())["owners"]
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 130
    assert (cluster["namespace"], cluster["name"], cluster["state"]) == (world.namespace, "one", "done")
    assert (owner["name"], [one["state"] for one in owner["objects"]]) == ("dns", ["done"])


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
            f"✓ Cluster {world.namespace}/one  class {release.class_name}, addons v1, Kubernetes v1.35.4"
        )
        assert "  ✓ control plane  v1.35.4" in tree
        assert f"    ✓ dns  1 objects of {release}" in tree
        assert any(line.startswith("  ✓ last change  ") for line in tree)
        document = json.loads(await csctl(world, "status", f"{world.namespace}/one", "-o", "json"))
        assert (document["ready"], document["addons"]) == (True, [{"name": "dns", "version": release.release}])
        assert "not found" in await csctl(world, "status", f"{world.namespace}/two", code=1)
        await page_shows_cluster(world)


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


async def test_reconcile_restores_objects_and_suspend_pauses_until_resume(world: World) -> None:
    key = f"{world.namespace}/one"
    async with world.operator(drift_interval=None):
        await delivered(world)
        resource = await world.workload.resource("", "ConfigMap")
        await world.workload.delete(resource, "dns", "kube-system")

        assert await csctl(world, "reconcile", key) == f"All addon objects of Cluster {key} were compared.\n"
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
