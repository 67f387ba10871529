"""The values of a source as templates; the engine of Helm itself is tested in ``deliver/render``."""

from __future__ import annotations

from base64 import b64encode
from gzip import compress
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.source_objects import SOURCE_SECRET_TYPE
from clusterstacks.deliver.render.errors import NotStarted, RenderFailed, RenderTimeout, WorkerDied, WorkersBusy
from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.model import yaml
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.clusterresourcesync.source_templates import render_source
from tests.support.builders.manifests import config_map, named

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

KEY = ObjectKey("team", "objects")
CLUSTER = named("cluster.x-k8s.io/v1beta2", "Cluster", "prod", "team", spec={})


class Templates(Renderer):
    """Replaces one expression, and fails for a text."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def template(self, text: str, data: Manifest, *, label: str, file: str) -> str:
        del label, file
        if self.failure is not None and "secret word" in text:
            raise self.failure
        return text.replace("{{ .Cluster.metadata.name }}", data["Cluster"]["metadata"]["name"])


def text_of(name: str, **data: str) -> str:
    return yaml.dump(config_map(name, **data))


NAMED = text_of("{{ .Cluster.metadata.name }}")
FAILING = text_of("secret word")


def source(kind: str, *, binary: bool = False, **values: str) -> Manifest:
    encoded = {
        name: b64encode(compress(text.encode()) if binary else text.encode()).decode() for name, text in values.items()
    }
    if kind == "Secret":
        return named("v1", "Secret", KEY.name, KEY.namespace, type=SOURCE_SECRET_TYPE, data=encoded)
    return named(
        "v1", "ConfigMap", KEY.name, KEY.namespace, **({"binaryData": encoded} if binary else {"data": values})
    )


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_values_are_rendered_for_the_cluster(kind: str, *, binary: bool) -> None:
    objects = await render_source(Templates(), kind, KEY, source(kind, binary=binary, a=NAMED), CLUSTER)

    assert objects.faults == ()
    assert [one["metadata"]["name"] for one in objects.manifests] == ["prod"]


FAULTS: list[Any] = [
    ("ConfigMap", RenderFailed("ConfigMap team/objects, key b: function secret not defined"), "secret not defined"),
    ("ConfigMap", RenderTimeout("ConfigMap team/objects, key b: took longer than 60 s"), "took longer than 60 s"),
    ("Secret", RenderFailed("Secret team/objects, key b: function secret not defined"), "(a Secret is not quoted)"),
    ("Secret", WorkerDied("Secret team/objects, key b: out of memory"), "out of memory"),
]


@pytest.mark.parametrize(("kind", "failure", "told"), FAULTS)
async def test_value_that_cannot_be_rendered_is_a_fault_of_its_key_only(
    kind: str, failure: Exception, told: str
) -> None:
    objects = await render_source(Templates(failure), kind, KEY, source(kind, a=NAMED, b=FAILING), CLUSTER)

    (fault,) = objects.faults
    assert fault.startswith(f"{kind} team/objects, key b: ")
    assert fault.endswith(told)
    assert [one["metadata"]["name"] for one in objects.manifests] == ["prod"]


@pytest.mark.parametrize("failure", [NotStarted("no memory"), WorkersBusy("busy")])
async def test_lack_of_workers_is_no_fault_of_a_source(failure: Exception) -> None:
    with pytest.raises(type(failure)):
        await render_source(Templates(failure), "ConfigMap", KEY, source("ConfigMap", a=FAILING), CLUSTER)


async def test_value_that_cannot_be_decoded_and_source_that_cannot_be_used_are_faults_as_without_templates() -> None:
    broken = {**source("ConfigMap", a=NAMED), "binaryData": {"b": "not base64"}}
    opaque = {**source("Secret", a=NAMED), "type": "Opaque"}

    decoded = await render_source(Templates(), "ConfigMap", KEY, broken, CLUSTER)
    refused = await render_source(Templates(), "Secret", KEY, opaque, CLUSTER)
    missing = await render_source(Templates(), "ConfigMap", KEY, None, CLUSTER)

    assert decoded.faults == ("ConfigMap team/objects, key b: is not base64",)
    assert len(decoded.manifests) == 1
    assert SOURCE_SECRET_TYPE in refused.faults[0]
    assert "does not exist" in missing.faults[0]
