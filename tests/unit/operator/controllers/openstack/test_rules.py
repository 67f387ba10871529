"""What an OpenStackNodeImageRelease asks of ORC, and what its conditions say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import read
from clusterstacks.model.files.node_images import NodeImages
from clusterstacks.model.kinds.names import OpenStackKind
from clusterstacks.model.objects import rfc3339
from clusterstacks.model.versions import StackVersion
from clusterstacks.operator.controllers.openstack.rules import (
    NOT_FOUND,
    differs,
    is_missing,
    node_images,
    owners,
    report,
    wanted_image,
)
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from tests.support.builders.stacks import TinyStack

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
CHECKSUM = f"sha256:{'a' * 64}"
DEFINITIONS = Path(__file__).parents[5] / "charts" / "cluster-stack-operator" / "files" / "crds-openstack"


def listed(*images: Manifest) -> NodeImages:
    document = {"apiVersion": "openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1", "openStackNodeImages": images}
    return read(NodeImages, document, file="node-images.yaml")


def image(checksum: str = "", **options: Any) -> Manifest:
    plain = {"name": "ubuntu", "disk_format": "qcow2", "container_format": "bare"}
    verified = {"checksum": checksum} if checksum else {}
    return {"url": "https://images.example.org/u", "createOpts": {**plain, **options}, **verified}


def node_image(**spec: Any) -> Manifest:
    return {
        "apiVersion": "infrastructure.clusterstack.x-k8s.io/v1alpha1",
        "kind": "OpenStackNodeImageRelease",
        "metadata": {"name": "node", "namespace": "stacks", "uid": "4711", "generation": 1},
        "spec": {"identityRef": {"kind": "Secret", "name": "cloud"}, **spec},
    }


def orc(
    reason: str = "", message: str = "", *, managed: bool = False, cloud: str = "", image_id: str = "", seen: int = 1
) -> Manifest:
    """Return an Image as ORC reports it."""
    status = "True" if reason == "Success" else "False"
    known = {"type": "Available", "status": status, "reason": reason, "message": message, "observedGeneration": seen}
    found = {"conditions": [known] if reason else [], "id": image_id, "resource": {"status": cloud}}
    spec = {"managementPolicy": "managed"} if managed else {"import": {"filter": {"name": "ubuntu"}}}
    return {
        "apiVersion": "openstack.k-orc.cloud/v1alpha1",
        "kind": "Image",
        "metadata": {"name": "node", "namespace": "stacks", "uid": "1", "generation": 1},
        "spec": spec,
        "status": found,
    }


def reported(live: Manifest, before: Manifest | None = None) -> tuple[StatusPatch, str]:
    status = {"conditions": [before]} if before else {}
    patch = StatusPatch({**node_image(), "status": status})
    return patch, report(patch, live, NOW)


ACTIVE = "OpenStackImageActive"
STATES = [
    (orc(), ACTIVE, "OpenStackImageNotCreateYet", "Info"),
    (orc("Progressing", "Waiting for Secret/cloud to be created"), "CloudAvailable", "SecretNotFound", "Error"),
    (orc("TransientError", "no cloud named: openstack, in it"), "CloudAvailable", "CloudNotSet", "Error"),
    (
        orc("TransientError", "providerClient authentication err: 401"),
        "OpenStackImageServiceClientAvailable",
        "OpenStackImageServiceClientNotSet",
        "Error",
    ),
    (orc("Progressing", "Waiting", cloud="saving", image_id="7"), ACTIVE, "OpenStackImageNotImportedYet", "Info"),
    (orc("Progressing", "Waiting", cloud="uploading", image_id="7"), ACTIVE, "OpenStackImageNotImportedYet", "Info"),
    (orc("Progressing", "Waiting", cloud="deactivated", image_id="7"), ACTIVE, "IssueWithOpenStackImage", "Error"),
    (orc("Progressing", "Waiting", cloud="killed", image_id="7"), ACTIVE, "IssueWithOpenStackImage", "Error"),
    (orc("TransientError", "500", managed=True), ACTIVE, "IssueWithOpenStackImage", "Error"),
    (orc("InvalidConfiguration", "hash verification failed", managed=True), ACTIVE, "IssueWithOpenStackImage", "Error"),
    (orc("InvalidConfiguration", "found more than one matching"), ACTIVE, "IssueWithOpenStackImage", "Error"),
    (orc("UnrecoverableError", "does not exist in OpenStack"), ACTIVE, "IssueWithOpenStackImage", "Error"),
    (orc("Success", seen=0), ACTIVE, "OpenStackImageNotCreateYet", "Info"),
]


@pytest.mark.regression("D37")
@pytest.mark.parametrize(("live", "type_", "reason", "severity"), STATES)
def test_states_of_orc_have_the_condition_of_the_go_provider(
    live: Manifest, type_: str, reason: str, severity: str
) -> None:
    patch, why = reported(live)
    condition = patch.condition(type_)
    assert condition is not None
    assert (condition.status, condition.reason, condition.severity) == ("False", reason, severity)
    assert why == condition.message
    assert not patch.holds(ACTIVE)


def test_active_image_is_true_in_all_conditions_and_one_that_was_used_was_not_imported() -> None:
    patch, why = reported(orc("Success", image_id="7", managed=True))
    types = ("CloudAvailable", "OpenStackImageServiceClientAvailable", "OpenStackImageImportStarted", ACTIVE)
    assert (why, [patch.holds(one) for one in types]) == ("", [True] * 4)
    patch, why = reported(orc("Success", image_id="7"))
    assert (why, patch.condition("OpenStackImageImportStarted")) == ("", None)


@pytest.mark.regression("D40")
def test_image_that_was_active_before_causes_no_event() -> None:
    active = {"type": ACTIVE, "status": "True", "lastTransitionTime": rfc3339(NOW)}
    assert [event.reason for _, event in reported(orc("Success"))[0].news] == [ACTIVE]
    assert reported(orc("Success"), active)[0].news == []


@pytest.mark.regression("D36")
def test_image_whose_upload_never_ended_is_uploaded_again_and_others_are_reported_after_an_hour() -> None:
    assert is_missing(orc("Progressing", "Waiting for OpenStack resource to be ready", cloud="queued", image_id="7"))
    assert not is_missing(orc("Progressing", cloud="queued", image_id="7", managed=True))
    since = rfc3339(NOW - timedelta(minutes=61))
    before = {"type": ACTIVE, "status": "False", "reason": "x", "lastTransitionTime": since}
    patch, why = reported(orc("Progressing", "Waiting", cloud="saving", image_id="7", managed=True), before)
    late = patch.condition(ACTIVE)
    assert late is not None
    assert late.reason == "OpenStackImageImportTimeOutReason"
    assert why.startswith("for more than an hour: Image node is not available yet: Waiting: look at")


def test_image_is_missing_only_if_orc_has_looked_for_it() -> None:
    assert is_missing(orc("Progressing", NOT_FOUND))
    assert not is_missing(orc("Progressing", NOT_FOUND, seen=0))
    assert not is_missing(orc("Progressing", NOT_FOUND, managed=True))
    assert not is_missing(orc("Progressing", "Waiting for Secret/cloud to be created"))


def wanted(entry: Manifest, *, upload: bool, **identity: str) -> Manifest:
    reference = {"identityRef": {"kind": "Secret", "name": "cloud", **identity}}
    spec = wanted_image(node_image(**reference), listed(entry), upload=upload)["spec"]
    assert isinstance(spec, dict)
    return spec


def test_image_is_looked_for_by_name_and_tags() -> None:
    looking = wanted(image(tags=["kube", "kube", "x"]), upload=False)
    assert looking == {
        "managementPolicy": "unmanaged",
        "import": {"filter": {"name": "ubuntu", "tags": ["kube", "x"]}},
        "cloudCredentialsRef": {"secretName": "cloud", "cloudName": "openstack"},
    }
    assert wanted(image(), upload=False, cloudName="other")["cloudCredentialsRef"]["cloudName"] == "other"


@pytest.mark.parametrize("upload", [False, True])
def test_image_with_an_id_is_used_and_never_uploaded(*, upload: bool) -> None:
    spec = wanted(image(id="6d4c8b2e-0000-4000-8000-000000000000"), upload=upload)
    assert (spec["managementPolicy"], [*spec["import"]]) == ("unmanaged", ["id"])
    assert "managedOptions" not in spec


@pytest.mark.regression("D72")
@pytest.mark.parametrize("protected", [False, True])
def test_upload_has_the_hash_and_stays_in_the_cloud(*, protected: bool) -> None:
    spec = wanted(image(CHECKSUM, protected=protected), upload=True)
    assert spec["resource"]["content"]["download"]["hash"] == {"algorithm": "sha256", "value": "a" * 64}
    assert spec["managedOptions"] == {"onDelete": "detach"}


class FakeRelease:
    """The parts of a release that decide its node images."""

    def __init__(self, images: NodeImages | None, version: str = "v1") -> None:
        self.name = TinyStack("scs", provider="openstack").release("v3")
        self.images = images
        self.metadata = type("Metadata", (), {"node_image": StackVersion.parse(version) if version else None})

    def node_images(self) -> NodeImages | None:
        return self.images


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("ubuntu-capi-image-v1.27.8", "v2", "ubuntu-capi-image-v1.27.8-v2"),
        ("ubuntu", "v0-sha.a3baa3a", "ubuntu-v0-sha-a3baa3a"),
        ("My Image", "v2", "my-image-v2"),
        ("ubuntu", "", "ubuntu"),
    ],
)
def test_node_image_has_the_name_of_the_go_provider(name: str, version: str, expected: str) -> None:
    release: Any = FakeRelease(listed(image(name=name)), version)
    assert [*node_images(release)] == [f"{release.name.series}-{expected}"]


@pytest.mark.regression("D39")
def test_release_without_node_images_says_so() -> None:
    release: Any = FakeRelease(None)
    with pytest.raises(SpecError, match="has no node images for OpenStack: publish one with"):
        node_images(release)
    twice: Any = FakeRelease(listed(image(name="A"), image(name="a")))
    with pytest.raises(SpecError, match="change one name"):
        node_images(twice)
    file: Any = FakeRelease(listed({**image(CHECKSUM), "url": "artifact:ubuntu.qcow2"}))
    with pytest.raises(SpecError, match="names files, which are served to ORC only without a provider object"):
        node_images(file)


@pytest.mark.regression("D38")
def test_another_image_of_the_same_name_is_noticed() -> None:
    (entry,) = node_images(FakeRelease(listed(image(CHECKSUM)))).values()  # type: ignore[arg-type]
    stored = {"url": entry["url"], "createOpts": entry["createOpts"]}
    assert not differs(node_image(image=stored), entry)
    assert differs(node_image(image={**stored, "url": "https://images.example.org/other"}), entry)


def test_owners_are_the_releases() -> None:
    references = [{"kind": OpenStackKind.RELEASE.value, "name": "one"}, {"kind": "Other", "name": "two"}]
    assert owners({"metadata": {"ownerReferences": references}}) == ["one"]


def definitions() -> dict[str, Manifest]:
    found = [yaml.safe_load(path.read_text()) for path in DEFINITIONS.iterdir()]
    return {one["spec"]["names"]["kind"]: one for one in found}


def leaves(schema: Manifest, path: str = "") -> dict[str, Manifest]:
    found = {path: schema}
    for name, part in (schema.get("properties") or {}).items():
        found |= leaves(part, f"{path}.{name}".lstrip("."))
    return found


IDENTITY = {"kind", "name"}
OPTIONS = {
    "name", "id", "visibility", "os_hidden", "tags", "container_format", "disk_format", "min_disk", "min_ram",
    "protected", "properties",
}  # fmt: skip


def test_definitions_are_those_of_the_go_provider() -> None:
    """Source: config/crd/bases of cluster-stack-provider-openstack."""
    found = definitions()
    assert {*found} == {*OpenStackKind}
    short = {kind: one["spec"]["names"]["shortNames"] for kind, one in found.items()}
    assert short == {
        OpenStackKind.TEMPLATE: ["oscsrt"], OpenStackKind.RELEASE: ["oscsr"], OpenStackKind.NODE_IMAGE: ["osnir"]
    }  # fmt: skip
    for kind, definition in found.items():
        (version,) = definition["spec"]["versions"]
        columns = [one["name"] for one in version.get("additionalPrinterColumns", [])]
        assert columns == ([] if kind == OpenStackKind.TEMPLATE else ["Ready", "Age", "Reason", "Message"])
        assert version["subresources"] == {"status": {}}
        schema = leaves(version["schema"]["openAPIV3Schema"])
        (identity,) = (one for path, one in schema.items() if path.endswith("identityRef"))
        assert {*identity["required"]} == IDENTITY
        assert identity["properties"]["kind"]["minLength"] == 1
        default = None if kind == OpenStackKind.NODE_IMAGE else {"kind": "Secret", "name": "openstack"}
        assert identity.get("default") == default
        if kind != OpenStackKind.TEMPLATE:
            assert schema["status.ready"]["default"] is False
    schema = leaves(found[OpenStackKind.NODE_IMAGE]["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert {*schema["spec.image.createOpts"]["properties"]} == OPTIONS
    assert schema["spec.image.createOpts"]["required"] == ["name"]
    assert {*schema["spec.image"]["required"]} == {"url", "createOpts"}
    assert {*schema["spec"]["required"]} == {"identityRef", "image"}
    assert not [path for path, one in schema.items() if "enum" in one]
