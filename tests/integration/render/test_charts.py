from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.dev.binaries import resolve
from clusterstacks.model import yaml
from tests.support.builders.charts import CONFIG_MAP, packed, template
from tests.support.observing.render_workers import chart_request

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.deliver.render.renderer import Renderer

NESTED_CHART = "apiVersion: v2\nname: sub\nversion: 1.0.0\n"


def data_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    (manifest,) = manifests
    return dict(manifest["data"])


def map_of(**values: str) -> str:
    return CONFIG_MAP % "a" + "data:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items())


async def test_a_chart_sees_release_values_and_version_but_no_cluster(renderer: Renderer) -> None:
    chart = template(
        map_of(
            release='"{{ .Release.Name }}/{{ .Release.Namespace }}/{{ .Release.IsInstall }}"',
            version='"{{ .Capabilities.KubeVersion }} {{ .Capabilities.KubeVersion.Minor }}"',
            value='"{{ .Values.a.b }}"',
            lookup='\'{{ lookup "v1" "Secret" "kube-system" "x" | toJson }}\'',
            host='"{{ getHostByName "localhost" }}"',
            api='"{{ .Capabilities.APIVersions.Has "cilium.io/v2" }}"',
        )
    )

    assert data_of(await renderer.chart(chart_request(chart, values="a: {b: yes}"))) == {
        "release": "cluster-addon/kube-system/true",
        "version": "v1.35.4 35",
        "value": "true",
        "lookup": "{}",
        "host": "",
        "api": "false",
    }


@pytest.mark.regression("LIVE-L8")
async def test_capabilities_are_the_defaults_of_helm_with_the_cluster_version(renderer: Renderer) -> None:
    removed = '"{{ .Capabilities.APIVersions.Has "policy/v1beta1" }}"'
    old = '"{{ semverCompare "<1.25-0" .Capabilities.KubeVersion.Version }}"'
    chart = template(map_of(removed=removed, old=old))

    assert data_of(await renderer.chart(chart_request(chart))) == {"removed": "true", "old": "false"}


async def test_hooks_notes_crds_and_partials_are_treated_as_helm_template_does(renderer: Renderer) -> None:
    crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x.example.com}\n"
    hook = 'apiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {"helm.sh/hook": %s}}\n'
    chart = packed(
        {
            "crds/x.yaml": crd,
            "templates/hook.yaml": hook % ("hook", "pre-install"),
            "templates/NOTES.txt": "- 1",
            "templates/_helpers.tpl": '{{ define "name" }}named{{ end }}',
            "templates/empty.yaml": "{{ if .Values.never }}x{{ end }}",
            "templates/test.yaml": hook % ("test", "test"),
            "templates/a.yaml": CONFIG_MAP % '{{ include "name" . }}',
        }
    )

    with_crds = await renderer.chart(chart_request(chart, include_crds=True))
    without = await renderer.chart(chart_request(chart))

    assert [manifest["metadata"]["name"] for manifest in with_crds] == ["x.example.com", "named", "hook"]
    assert without == with_crds[1:]


@pytest.mark.regression("CASE-01")
async def test_documents_are_split_as_by_the_helm_command(renderer: Renderer, tmp_path: Path) -> None:
    maps = [CONFIG_MAP % name for name in "abcdefgh"]
    separators = ["---", "--- ", "---\n", "---\n  ", "\n\n---\n\n---\n", "--- # words\n", "---\n# words\n---"]
    split = "".join(part for pair in zip(maps, [*separators, ""], strict=True) for part in pair)
    scalar = f"{CONFIG_MAP % 'i'}data:\n  a: |\n    x\n    ---\n    y\n  b: |\n    z\n---{CONFIG_MAP % 'j'}"
    files = {"templates/one.yaml": f" \n ---{split}", "templates/two.yaml": f"  {scalar}", "templates/no.yaml": "---\n"}
    for path, content in {"Chart.yaml": NESTED_CHART, **files}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    command = [str(resolve(["helm"])["helm"].path), "template", "any", str(tmp_path)]
    printed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)

    found = await renderer.chart(chart_request(packed(files)))

    assert [one["metadata"]["name"] for one in found] == list("abcdefghij")
    assert found == [one for one in yaml.load_all(printed.stdout) if one]


async def test_disabled_subchart_is_rendered_again_once_enabled(renderer: Renderer) -> None:
    chart = packed(
        {
            "charts/sub/Chart.yaml": NESTED_CHART,
            "charts/sub/crds/x.yaml": CONFIG_MAP % "crd",
            "charts/sub/templates/a.yaml": CONFIG_MAP % "sub",
            "templates/a.yaml": CONFIG_MAP % "main",
        },
        chart="dependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]\n",
    )

    found = [
        [
            manifest["metadata"]["name"]
            for manifest in await renderer.chart(
                chart_request(chart, values=f"sub: {{enabled: {on}}}", include_crds=True)
            )
        ]
        for on in ("true", "false", "true", "false")
    ]

    assert found == [["crd", "sub", "main"], ["main"], ["crd", "sub", "main"], ["main"]]


@pytest.mark.parametrize("condition", ["", ", condition: sub.enabled"])
async def test_chart_without_its_subcharts_is_an_error(renderer: Renderer, condition: str) -> None:
    chart = packed(
        {"templates/a.yaml": CONFIG_MAP % "main"},
        chart=f"dependencies: [{{name: sub, version: 1.0.0, repository: https://charts.example.com{condition}}}]\n",
    )

    with pytest.raises(RenderFailed, match="addon demo: chart demo lacks its dependencies sub: vendor them"):
        await renderer.chart(chart_request(chart))


async def test_subchart_with_an_alias_is_rendered(renderer: Renderer) -> None:
    chart = packed(
        {"charts/sub/Chart.yaml": NESTED_CHART, "charts/sub/templates/a.yaml": CONFIG_MAP % "{{ .Chart.Name }}"},
        chart="dependencies: [{name: sub, alias: one, version: 1.0.0}, {name: sub, alias: two, version: 1.0.0}]\n",
    )

    found = await renderer.chart(chart_request(chart))

    assert [manifest["metadata"]["name"] for manifest in found] == ["one", "two"]


async def test_numbers_in_values_print_as_helm_prints_them(renderer: Renderer) -> None:
    chart = packed(
        {
            "values.yaml": "own: 2000000\n",
            "templates/a.yaml": map_of(
                small='"{{ .Values.small }}"',
                big='"{{ .Values.big }} {{ .Values.big | int64 }}"',
                own='"{{ .Values.own }}"',
                octal='"{{ .Values.octal }}"',
            ),
        }
    )

    read = data_of(await renderer.chart(chart_request(chart, values="small: 6443\nbig: 1000000\noctal: 0644\n")))

    assert read == {"small": "6443", "big": "1e+06 1000000", "own": "2e+06", "octal": "420"}


async def test_null_value_removes_a_default(renderer: Renderer) -> None:
    chart = packed({"values.yaml": "a: {b: 1}\n", "templates/a.yaml": map_of(a='"{{ hasKey .Values.a "b" }}"')})

    assert data_of(await renderer.chart(chart_request(chart, values="a: {b: null}"))) == {"a": "false"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('\n{{ fail "no luck" }}', r"all\.yaml:2:3\): no luck"),
        ('{{ required "a is needed" .Values.a }}', r"all\.yaml:1:3\): a is needed"),
        ("\n\n{{ .Values.a.b }}", r"all\.yaml:3:\d+ .*<\.Values\.a\.b>.*nil pointer"),
        ("\n{{ nonsense }}", r"all\.yaml:2\): function \"nonsense\" not defined"),
        ("\n{{ if }}", r"all\.yaml:2\): missing value for if"),
        ('{{ env "HOME" }}', r"function \"env\" not defined"),
        ("a: b: c", r"all\.yaml \(rendered\), line 1: mapping values are not allowed"),
        ("- 1", r"all\.yaml \(rendered\), document 1: is a list"),
        ("a: 1\n", r"all\.yaml \(rendered\), document 1: has no apiVersion"),
        ('{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}', r"nested reference name: a"),
        ('{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}', r"exceeded maximum template depth"),
    ],
)
async def test_invalid_chart_error_names_chart_template_and_line(renderer: Renderer, text: str, complaint: str) -> None:
    with pytest.raises(RenderFailed, match=complaint) as caught:
        await renderer.chart(chart_request(template(text), label="addon cni of openstack-scs-1-35-v2"))

    assert str(caught.value).startswith("addon cni of openstack-scs-1-35-v2: ")
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("chart", "values", "complaint"),
    [
        (b"no archive", "", "addon demo: "),
        (packed({}, chart="version: broken\n"), "", "addon demo: "),
        (template(""), "- 1", "values must be a mapping, not a list"),
        (template(""), "a: b: c", "values, line 1"),
        (
            packed({"values.schema.json": '{"properties": {"a": {"type": "string"}}}'}),
            "a: 1",
            "a.*got number, want string",
        ),
    ],
)
async def test_invalid_input_is_an_error(renderer: Renderer, chart: bytes, values: str, complaint: str) -> None:
    with pytest.raises(RenderFailed, match=complaint):
        await renderer.chart(chart_request(chart, values=values))


async def test_concurrent_renders_do_not_mix(renderer: Renderer) -> None:
    charts = {name: template(CONFIG_MAP % f"{name}-{{{{ .Values.number }}}}") for name in ("a", "b", "c")}

    found = await asyncio.gather(
        *(
            renderer.chart(chart_request(chart, values=f"number: {number}"))
            for number in range(10)
            for chart in charts.values()
        )
    )

    assert [manifests[0]["metadata"]["name"] for manifests in found] == [
        f"{name}-{number}" for number in range(10) for name in charts
    ]
