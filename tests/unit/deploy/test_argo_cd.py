from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime  # Argo CD's gopher-lua is Lua 5.1

from clusterstacks.model.kinds.names import GROUP

CHECKOUT = Path(__file__).parents[3]
SCRIPTS = yaml.safe_load((CHECKOUT / "deploy/argo-cd/health.yaml").read_text())["data"]


def ready(status: str, message: str, **more: str) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "message": message, **more}


def judged(manifest: dict[str, Any]) -> tuple[str, str]:
    lua = LuaRuntime()
    lua.globals().obj = lua.table_from(manifest, recursive=True)
    health = lua.execute(SCRIPTS[f"resource.customizations.health.{GROUP}_ClusterStack"])
    return health.status, health.message


def test_every_kind_with_conditions_has_the_same_script() -> None:
    kinds = {key.rpartition("_")[2] for key in SCRIPTS}

    assert kinds == {"ClusterStack", "ClusterStackRelease", "ClusterAddon"}
    assert len(set(SCRIPTS.values())) == 1


@pytest.mark.parametrize(
    ("status", "health"),
    [
        (None, ("Progressing", "the operator has not seen the object")),
        ({}, ("Progressing", "the operator has not seen the object")),
        (
            {"observedGeneration": 1, "conditions": [ready("True", "usable: v1")]},
            ("Progressing", "the operator has not seen the last change"),
        ),
        (
            {"observedGeneration": 2, "conditions": [{"type": "A", "status": "False"}, ready("True", "usable: v1")]},
            ("Healthy", "usable: v1"),
        ),
        ({"conditions": [ready("True", "of an earlier version")]}, ("Healthy", "of an earlier version")),
        (
            {"observedGeneration": 2, "conditions": [ready("False", "1 of 3 objects", severity="Info")]},
            ("Progressing", "1 of 3 objects"),
        ),
        (
            {"observedGeneration": 2, "conditions": [ready("False", "no release", severity="Warning")]},
            ("Degraded", "no release"),
        ),
        (
            {"observedGeneration": 2, "conditions": [ready("False", "is not valid", severity="Error")]},
            ("Degraded", "is not valid"),
        ),
    ],
)
def test_argo_cd_judges_an_object_by_its_condition_ready(
    status: dict[str, Any] | None, health: tuple[str, str]
) -> None:
    manifest = {"metadata": {"generation": 2}, **({} if status is None else {"status": status})}

    assert judged(manifest) == health
