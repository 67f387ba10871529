from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterapi import root_objects, template_data

if TYPE_CHECKING:
    from clusterstacks.deliver.render.renderer import Renderer

DATA: dict[str, Any] = {
    "Cluster": {
        "metadata": {"name": "one", "labels": {"empty": "", "zone": "a"}, "nothing": None, "générique 😀": 1},
        "spec": {
            "controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443},
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/8"]}},
            "big": 9007199254740993,
            "million": 1000000,
            "ratio": 1.5,
            "numbers": [1, 2000000, [3000000], {"n": 4000000}],
            "no": False,
        },
    }
}


async def rendered(renderer: Renderer, text: str) -> str:
    return await renderer.template(text, DATA, label="addon cni", file="overwrite.yaml")


class TestExpressions:
    @pytest.mark.parametrize(
        ("text", "output"),
        [
            ("", ""),
            ("a: {{ .Cluster.metadata.name }}", "a: one"),
            ("{{ .Cluster.spec.controlPlaneEndpoint.host }}", "192.0.2.1"),
            ("{{ .Cluster.spec.controlPlaneEndpoint.port }}", "6443"),
            ("{{ index .Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }}", "10.0.0.0/8"),
            ("{{ $.Cluster.metadata.name | upper | quote }}", '"ONE"'),
            (
                "{{ range .Cluster.spec.clusterNetwork.pods.cidrBlocks }}{{ . }}{{ $.Cluster.metadata.name }}{{ end }}",
                "10.0.0.0/8one",
            ),
            ('{{ define "x" }}<{{ .name }}>{{ end }}{{ template "x" .Cluster.metadata }}', "<one>"),
            ('{{ include "y" .Cluster.metadata | quote }}{{ define "y" }}{{ .name }}{{ end }}', '"one"'),
            ("{{ .Cluster.metadata.labels | toJson }}", '{"empty":"","zone":"a"}'),
            ('{{ index .Cluster.metadata "générique 😀" }}', "1"),
        ],
    )
    async def test_the_template_language(self, renderer: Renderer, text: str, output: str) -> None:
        assert await rendered(renderer, text) == output

    @pytest.mark.parametrize(
        ("text", "output"),
        [
            ("{{ .Cluster.spec.million }}", "1000000"),
            ("{{ .Cluster.spec.big }}", "9007199254740993"),
            ("{{ .Cluster.spec.numbers }}", "[1 2000000 [3000000] map[n:4000000]]"),
            ("{{ .Cluster.spec.ratio }}", "1.5"),
            ("{{ if eq .Cluster.spec.controlPlaneEndpoint.port 6443 }}yes{{ end }}", "yes"),
            ('{{ printf "%d" .Cluster.spec.million }}', "1000000"),
            ("{{ add .Cluster.spec.million 1 }}", "1000001"),
        ],
    )
    async def test_integers_stay_integers(self, renderer: Renderer, text: str, output: str) -> None:
        assert await rendered(renderer, text) == output


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("a: {{ .Cluster.nope }}", "a: "),
        ("a: {{ .Cluster.metadata.nothing }}", "a: "),
        ("a: {{ .Cluster.nope | quote }}", "a: "),
        ("a: {{ .Cluster.nope | toYaml }}", "a: null"),
        ('{{ tpl "{{ .metadata.name }}" .Cluster }}', "one"),
    ],
)
async def test_missing_value_prints_what_helm_prints(renderer: Renderer, text: str, output: str) -> None:
    assert await rendered(renderer, text) == output


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("\n{{ .Cluster.nope.x }}", r"overwrite\.yaml:2:11 .*<\.Cluster\.nope\.x>"),
            ("\n{{ if .Cluster.nope.x }}{{ end }}", r"overwrite\.yaml:2:14 .*<\.Cluster\.nope\.x>"),
            ("\n{{ nonsense }}", r"overwrite\.yaml:2\): function \"nonsense\" not defined"),
            ("\n{{ .Cluster", r"overwrite\.yaml:2\): unclosed action"),
            ("\n{{ index .Cluster.spec.numbers 9 }}", r"overwrite\.yaml:2:3: .*index out of range"),
            ('\n{{ fail "because" }}', r"overwrite\.yaml:2:3\): because"),
            ('\n{{ required "a host" .Cluster.nope }}', r"overwrite\.yaml:2:3\): a host"),
            ('\n{{ env "HOME" }}', r"function \"env\" not defined"),
            ("\n{{ .Files.Get `x` }}", r"overwrite\.yaml:2:"),
        ],
    )
    async def test_invalid_expression_is_named_with_file_and_line(
        self, renderer: Renderer, text: str, complaint: str
    ) -> None:
        with pytest.raises(RenderFailed, match=complaint):
            await rendered(renderer, text)


async def test_values_document_is_extracted_from_the_rendered_text(renderer: Renderer) -> None:
    text = await rendered(renderer, "values: |\n  host: {{ .Cluster.spec.controlPlaneEndpoint.host }}\n  n: 1000000\n")

    assert await renderer.values(text, label="addon cni") == "host: 192.0.2.1\nn: 1000000\n"
    with pytest.raises(RenderFailed, match="addon cni: the rendered values must be a mapping, not a list"):
        await renderer.values("[]", label="addon cni")


@pytest.mark.regression("DROP-M7")
async def test_template_written_for_v1beta1_renders_before_the_endpoint_is_known(renderer: Renderer) -> None:
    cluster = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "metadata": {"name": "a", "namespace": "tenant"},
        "spec": {"topology": {"classRef": {"name": "openstack-scs-1-35-v2"}}},
    }
    text = (
        "values: |\n"
        "  cluster: {{ .Cluster.metadata.name }}\n"
        "  k8sServiceHost: {{ .Cluster.spec.controlPlaneEndpoint.host }}\n"
        "  k8sServicePort: {{ .Cluster.spec.controlPlaneEndpoint.port }}\n"
        "  class: {{ .Cluster.spec.topology.class }}\n"
        "  ready: {{ .Cluster.status.infrastructureReady }}\n"
    )

    data = template_data(root_objects(cluster, None, None))
    rendered = await renderer.template(text, data, label="net", file="overwrite.yaml")

    assert yaml.load(await renderer.values(rendered, label="net")) == {
        "cluster": "a",
        "k8sServiceHost": None,
        "k8sServicePort": 0,
        "class": "openstack-scs-1-35-v2",
        "ready": False,
    }
