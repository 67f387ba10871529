"""The expressions of the preset for Renovate, run over the example stacks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PRESET = json.loads((ROOT / "deploy/renovate.json").read_text())
STACKS = (ROOT / "examples/stacks", ROOT / "tests/stacks/providers")


def expression(text: str) -> re.Pattern[str]:
    """Compile an expression of JavaScript (RE2 for Renovate); both have no look-around here."""
    assert "(?=" not in text
    assert "(?!" not in text
    return re.compile(text.replace("(?<", "(?P<"))


def managers_of(path: str) -> list[dict[str, Any]]:
    return [
        one
        for one in PRESET["customManagers"]
        if any(re.search(pattern.strip("/"), path) for pattern in one["managerFilePatterns"])
    ]


def found(path: str, text: str) -> set[tuple[str, str]]:
    """Return the name and version of each dependency that the preset finds in a file."""
    return {
        (match.groupdict().get("depName") or one["depNameTemplate"], match["currentValue"])
        for one in managers_of(path)
        for written in one["matchStrings"]
        for match in expression(written).finditer(text)
    }


def files(name: str) -> list[Path]:
    return sorted(path for folder in STACKS for path in folder.rglob(name))


def test_kubernetes_version_of_every_stack_is_found() -> None:
    for path in (*files("csctl.yaml"), *files("stack.yaml"), *files("versions.yaml")):
        text = path.read_text()
        written = re.findall(r"kubernetes(?:Version)?: v?(\d+\.\d+\.\d+)", text)

        assert found(str(path), text) >= {("kubernetes/kubernetes", version) for version in written}, path


def test_image_of_every_template_is_found_unless_it_has_an_expression() -> None:
    templates = [path for path in files("*.yaml") if "/templates/" in str(path)]
    images = {
        (*image.rsplit(":", 1),)
        for path in templates
        for image in re.findall(r"image: (\S+)$", path.read_text(), re.MULTILINE)
    }

    assert ("registry.example/demo/network", "1.5.0") in images
    assert {one for path in templates for one in found(str(path), path.read_text())} == images


def test_images_of_values_are_left_to_the_manager_of_renovate() -> None:
    (pattern,) = PRESET["helm-values"]["managerFilePatterns"]
    values = [path for path in files("values.yaml") if "image:" in path.read_text()]

    assert values
    assert all(re.search(pattern.strip("/"), str(path)) for path in values)
    assert [path for path in values if managers_of(str(path))] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('image: "ghcr.io/org/app:v1.2@sha256:' + "a" * 64 + '"\n', {("ghcr.io/org/app", "v1.2")}),
        ("image: localhost:5000/app:1.0 # pinned\n", {("localhost:5000/app", "1.0")}),
        ("- image: ghcr.io/org/app:{{ .Values.tag }}\n", set()),
        ("image: {{ .Values.image }}\n", set()),
    ],
)
def test_forms_of_an_image(line: str, expected: set[tuple[str, str]]) -> None:
    assert found("s/cluster-addon/cni/templates/a.yaml", line) == expected


def test_example_of_the_page_is_found() -> None:
    page = (ROOT / "docs/how-to/update-versions.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example is not None

    assert found("versions.yaml", example[1]) == {
        ("kubernetes/kubernetes", "1.35.4"),
        ("openstack-cloud-controller-manager", "2.35.0"),
    }


def test_minors_of_kubernetes_are_not_offered() -> None:
    (rule,) = PRESET["packageRules"]

    assert (rule["matchUpdateTypes"], rule["enabled"]) == (["minor", "major"], False)
