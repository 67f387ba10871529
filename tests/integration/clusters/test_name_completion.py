"""Names of live objects in a shell: csctl completes them with the rights of the user."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World

DEADLINE = 250

PATIENT = """#!{python}
from clusterstacks.csctl import main
from clusterstacks.csctl.verbs import completion
from clusterstacks.csctl.shared import name_completion
completion.SECONDS, name_completion.READ_SECONDS = 200, 100
main.main()
"""
"""csctl without the limit of two seconds, which a loaded machine may exceed."""

IN_BASH = """
eval "$(csctl completion bash)"
COMP_WORDS=(csctl "$@")
COMP_CWORD=$#
_csctl_completion csctl
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The directory of csctl."""
    file = tmp_path / "bin" / "csctl"
    file.parent.mkdir()
    file.write_text(PATIENT.format(python=sys.executable))
    file.chmod(0o755)
    return file.parent


async def started(program: Path, *command: str, **environ: str) -> list[str]:
    """Return the lines that a command prints; it must not print a message."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={"PATH": f"{program}:{os.environ['PATH']}", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert (process.returncode, err) == (0, b"")
    return out.decode().split()


async def completed(program: Path, file: Path, verb: str, *words: str) -> list[str]:
    """Complete the last word in bash."""
    return await started(program, "bash", "-c", IN_BASH, "bash", verb, "--kubeconfig", str(file), *words)


async def answered(program: Path, file: Path, shell: str, words: str, number: int) -> list[str]:
    """Complete a word as the script of a shell does."""
    line = {"COMP_WORDS": f"csctl {words}", "COMP_CWORD": str(number) if shell == "zsh" else ""}
    return await started(program, "csctl", KUBECONFIG=str(file), _CSCTL_COMPLETE=f"{shell}_complete", **line)


async def test_names_of_live_objects_are_completed(world: World, program: Path) -> None:
    file, here = world.management_kubeconfig, world.namespace
    other = await world.other_namespace()
    for version in ("v1", "v2"):
        name = world.stack.release(version)
        world.publish(name, world.stack.files(version, {}))
    await world.create(world.stack.manifest(here, "v1", "v2"))
    async with world.operator():
        for version in ("v1", "v2"):
            await world.release_ready(world.stack.release(version))
    own = world.stack.release("v1")
    await world.cluster("one", own.class_name, ready=False)
    await world.cluster("two", own.class_name, namespace=other, ready=False)
    released = [world.stack.release("v2").release, own.release]

    assert {f"{here}/one", f"{other}/two"} <= {*await completed(program, file, "status", here)}
    assert await completed(program, file, "status", f"{here}/") == [f"{here}/one"]
    assert await completed(program, file, "why", f"{here}/one", "") == released
    assert await completed(program, file, "plan", f"{here}/one", "--to", "") == released
    assert {here, other} <= {*await completed(program, file, "status", "-n", here)}
    context = yaml.safe_load(file.read_text())["current-context"]
    assert await completed(program, file, "status", "--context", "") == [context]
    assert f"{other}/two" in await completed(program, file, "drift", "--context", context, "")

    assert await answered(program, file, "zsh", f"history {here}/", 2) == ["plain", f"{here}/one", "_"]
    assert f"plain,{here}/one" in await answered(program, file, "fish", "history ", 2)


async def test_only_what_the_user_may_list_is_completed_and_nothing_is_said(
    world: World, program: Path, tmp_path: Path
) -> None:
    await world.cluster("one", world.stack.release("v1").class_name, ready=False)
    config = yaml.safe_load(world.management_kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = world.namespace
    config["users"][0]["user"]["as"] = f"{world.namespace}-member"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))

    assert await completed(program, file, "status", "") == []
    assert await completed(program, file, "status", "-n", "") == []

    rule = {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["list"]}
    metadata = {"name": "lister", "namespace": world.namespace}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    await world.create({**rbac, "kind": "Role", "rules": [rule]})
    subject = {"kind": "User", "name": f"{world.namespace}-member", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "lister", "apiGroup": "rbac.authorization.k8s.io"}
    await world.create({**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})

    async def may_list() -> bool:
        return await completed(program, file, "status", "") == ["one", f"{world.namespace}/one"]

    await eventually(may_list, seconds=DEADLINE, about="the new role")
