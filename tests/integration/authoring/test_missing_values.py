"""``csctl lint`` reports missing values that a values template prints, with file, line and expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.authoring.missing_values import check_missing_values
from clusterstacks.deliver.render.errors import RenderFailed

if TYPE_CHECKING:
    from clusterstacks.deliver.render.renderer import Renderer

pytestmark = pytest.mark.asyncio(loop_scope="module")

DATA: dict[str, Any] = {
    "Cluster": {
        "metadata": {"name": "one", "labels": {"empty": "", "zone": "a"}, "nothing": None},
        "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/8"]}}, "no": False},
    }
}


async def check(renderer: Renderer, text: str) -> None:
    await check_missing_values(renderer, text, DATA, label="addon cni", file="overwrite.yaml")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("{{ if .Cluster.nope }}x{{ else }}y{{ end }}", "y"),
        ("{{ with .Cluster.nope }}{{ .deep.er }}{{ end }}", ""),
        ("{{ range .Cluster.nope }}{{ . }}{{ end }}", ""),
        ("{{ if and .Cluster.nope .Cluster.nope.x }}x{{ end }}", ""),
        ('{{ .Cluster.nope | default "d" }}', "d"),
        ('{{ default "d" .Cluster.nope | quote }}', '"d"'),
        ('{{ coalesce .Cluster.nope "c" }}', "c"),
        ('{{ ternary "a" "b" (hasKey .Cluster "nope") }}', "b"),
        ('{{ dig "nope" "deeper" "d" .Cluster }}', "d"),
        ("{{ $x := .Cluster.nope }}{{ if $x }}{{ $x }}{{ end }}", ""),
        ("{{ .Cluster.metadata.labels.empty }}|{{ .Cluster.spec.no }}", "|false"),
        ('{{ get .Cluster.metadata.labels "empty" | quote }}', '""'),
        ("{{ if .Cluster.nope }}{{ .Cluster.nope.x | quote }}{{ end }}", ""),
        ('{{ include "t" (dict "a" .Cluster.nope) }}{{ define "t" }}{{ if .a }}{{ .a }}{{ end }}{{ end }}', ""),
    ],
)
async def test_handling_missing_values_is_allowed(renderer: Renderer, text: str, output: str) -> None:
    await check(renderer, text)

    assert await renderer.template(text, DATA, label="addon cni", file="overwrite.yaml") == output


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("{{ .Cluster.nope }}", ".Cluster.nope"),
        ("{{- .Cluster.nope -}}", ".Cluster.nope"),
        ("{{ .Cluster.metadata.nothing }}", ".Cluster.metadata.nothing"),
        ("{{ .Cluster.nope | quote }}", ".Cluster.nope"),
        ("{{ .Cluster.nope | toYaml }}", ".Cluster.nope"),
        ("{{ .Cluster.nope | toString }}", ".Cluster.nope"),
        ('{{ printf "%s" .Cluster.nope }}', ".Cluster.nope"),
        ("{{ print .Cluster.nope }}", ".Cluster.nope"),
        ('{{ cat "a" .Cluster.nope }}', ".Cluster.nope"),
        ("{{ .Cluster.nope | int }}", ".Cluster.nope"),
        ('{{ index .Cluster "nope" }}', 'index .Cluster "nope"'),
        ('{{ get .Cluster "nope" }}', 'get .Cluster "nope"'),
        ('{{ "nope" | get .Cluster }}', '"nope" | get .Cluster'),
        ("{{ (.Cluster.nope).x }}", "(.Cluster.nope).x"),
        ('{{ dict "a" .Cluster.nope | toYaml }}', ".Cluster.nope"),
        ("{{ default .Cluster.nope .Cluster.nope }}", "default .Cluster.nope .Cluster.nope"),
        ("{{ first list }}", "first list"),
        ("{{ .Release.Name | default .Files }}", None),
        ("{{ .Release }}", ".Release"),
        ("{{ .Files }}", ".Files"),
        ("{{ .Values }}", ".Values"),
        ("{{ .Capabilities }}", ".Capabilities"),
        ("{{ .ControlPlane | toJson }}", ".ControlPlane"),
    ],
)
async def test_printing_missing_values_is_an_error_with_file_line_and_expression(
    renderer: Renderer, action: str, value: str | None
) -> None:
    with pytest.raises(RenderFailed) as caught:
        await check(renderer, f"a: 1\n{{{{/* c\n */}}}}b: {action}\n")

    message = str(caught.value)
    assert message.startswith("addon cni: overwrite.yaml:3")
    if value is not None:
        assert f"{value} has no value" in message


@pytest.mark.parametrize(
    "text",
    [
        '{{ define "t" }}\n{{ .nope }}{{ end }}{{ template "t" .Cluster }}',
        "{{ range .Cluster.spec.clusterNetwork.pods.cidrBlocks }}\n{{ $.Cluster.nope }}{{ end }}",
        "{{ with .Cluster }}\n{{ .nope }}{{ end }}",
        "{{ $x := .Cluster.nope }}\n{{ $x }}",
        "{{ $x := 1 }}\n{{ $x = .Cluster.nope | quote }}{{ $x }}",
    ],
)
async def test_missing_values_are_found_in_nested_expressions(renderer: Renderer, text: str) -> None:
    with pytest.raises(RenderFailed, match=r"overwrite\.yaml:2: .* has no value"):
        await check(renderer, text)
