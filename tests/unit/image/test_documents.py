"""The JSON documents of an image: configuration, layout, and the list of what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from clusterstacks.model.errors import SpecError
from tools.image.debian import Package
from tools.image.layers import File, Layer, archive
from tools.image.layout import Layout, Origin, configuration
from tools.image.pushing import open_layout
from tools.image.sbom import Wheel, bill_of_materials, bundled, components, wheels_of
from tools.image.wheels import SITE

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = Origin("0.1.0", 1_700_000_000, "abc")
LAYERS = {"Debian": archive({"a": File(b"a")}), "wheels": archive({"b": File(b"b")})}
PACKAGE = Package("libstdc++6", "1:14.2+dfsg~1", "amd64", "ab" * 32, "", {})


def write(folder: Path) -> str:
    layout = Layout(folder)
    image = layout.add_image("amd64", LAYERS, ORIGIN)
    sbom = layout.add_sbom(image, bill_of_materials("operator", "0.1.0", components([], [PACKAGE], [])))
    index = layout.add_index({"amd64": image})
    layout.finish(index, [sbom], "0.1.0")
    return index.digest


def test_the_configuration_names_user_entry_point_and_layers_in_their_order() -> None:
    document = orjson.loads(configuration("arm64", LAYERS, ORIGIN))

    assert document["architecture"] == "arm64"
    assert document["created"] == "2023-11-14T22:13:20Z"
    assert document["rootfs"]["diff_ids"] == [layer.diff_id for layer in LAYERS.values()]
    assert [one["created_by"] for one in document["history"]] == ["Debian", "wheels"]
    assert document["config"]["User"] == "65532:65532"
    assert document["config"]["Entrypoint"] == ["/usr/bin/cluster-stack-operator"]
    assert document["config"]["Labels"]["org.opencontainers.image.revision"] == "abc"


def test_a_layout_written_again_has_the_same_digest_and_nothing_of_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "layout"
    first = write(folder)
    (folder / "blobs" / "sha256" / "left-over").touch()

    assert write(folder) == first
    assert not (folder / "blobs" / "sha256" / "left-over").exists()


def test_a_layout_that_was_written_can_be_opened(tmp_path: Path) -> None:
    digest = write(tmp_path)
    stored = open_layout(tmp_path)
    (image,), (sbom,) = stored.index.manifests, stored.referrers

    assert (stored.tag, stored.index.digest) == ("0.1.0", digest)
    assert sbom.subject is not None
    assert sbom.subject.digest == image.digest
    assert sbom.artifact_type == "application/vnd.cyclonedx+json"
    assert orjson.loads(stored.content(sbom.layers[0]).read_bytes())["bomFormat"] == "CycloneDX"


def test_a_damaged_layout_is_not_pushed(tmp_path: Path) -> None:
    write(tmp_path)
    index = open_layout(tmp_path).index
    path = tmp_path / "blobs" / "sha256" / index.digest.removeprefix("sha256:")
    path.write_bytes(path.read_bytes().replace(b"amd64", b"arm64"))

    with pytest.raises(SpecError, match="is damaged: build it again"):
        open_layout(tmp_path)


def test_a_missing_layout_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="build it with 'make image'"):
        open_layout(tmp_path)


def test_a_folder_with_other_content_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(SpecError, match="is not an OCI image layout and is not replaced"):
        Layout(tmp_path)
    assert (tmp_path / "mine").exists()


def installed(name: str, version: str, *, metadata: str = "", tag: str = "py3-none-any") -> Layer:
    folder = f"{SITE}/{name}-{version}.dist-info"
    head = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{metadata}"
    return {
        f"{folder}/METADATA": File(head.encode()),
        f"{folder}/WHEEL": File(f"Wheel-Version: 1.0\nTag: {tag}\n".encode()),
    }


def test_wheels_are_found_with_the_hash_that_the_lock_has_for_this_platform() -> None:
    url = "https://files.example.com/ab/My_Wheel-2-cp313-cp313-manylinux_2_17"
    lock: dict[str, Any] = {
        "package": [
            {
                "name": "my-wheel",
                "version": "1",
                "wheels": [{"url": "My_Wheel-1-py3-none-any.whl", "hash": "sha256:0"}],
            },
            {
                "name": "my-wheel",
                "version": "2",
                "wheels": [
                    {"url": f"{url}_aarch64.manylinux_2_28_aarch64.whl", "hash": "sha256:1"},
                    {"url": f"{url}_x86_64.manylinux_2_28_x86_64.whl", "hash": "sha256:2"},
                ],
            },
            {"name": "own", "version": "1"},
        ]
    }
    layer = installed(
        "My_Wheel", "2", metadata="License-Expression: MIT\n", tag="cp313-cp313-manylinux_2_28_x86_64"
    ) | installed("own", "1")

    assert wheels_of(layer, lock) == [Wheel("my-wheel", "2", "MIT", "2"), Wheel("own", "1", "", "")]


def test_the_list_of_components_is_sorted_and_its_package_urls_are_escaped() -> None:
    raw = bill_of_materials("operator", "0.1.0", components([Wheel("yarl", "1", "Apache-2.0", "cd")], [PACKAGE], []))
    first, second = orjson.loads(raw)["components"]

    assert first["purl"] == "pkg:deb/debian/libstdc%2B%2B6@1%3A14.2%2Bdfsg%7E1?arch=amd64&distro=debian-13"
    assert first["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert second["purl"] == "pkg:pypi/yarl@1"
    assert second["licenses"] == [{"license": {"name": "Apache-2.0"}}]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("License-Expression: MIT\nLicense: Apache\n", "MIT"),
        ("License: BSD-3-Clause\n", "BSD-3-Clause"),
        ("License: Permission is\n granted\nClassifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        ("Classifier: Topic :: System\n", ""),
    ],
)
def test_the_license_of_a_wheel_is_what_it_states_in_a_line(metadata: str, expected: str) -> None:
    (wheel,) = wheels_of(installed("a", "1", metadata=metadata), {"package": []})

    assert wheel.license == expected


def test_go_modules_in_a_library_and_lists_in_wheels_are_components() -> None:
    go = (
        b"\x7fELF\xff Go buildinf:\x08\x02" + bytes(16) + b"\x08go1.26.6\xcf\x01" + bytes(16) + b"path\tx/capi\n"
        b"mod\texample.org/SDK\tv0.2.2\t\n"
        b"dep\thelm.sh/helm/v4\tv4.2.3\th1:abc=\n"
        b"dep\texample.org/old\tv1.0.0\n=>\texample.org/fork\tv2.0.0+incompatible\th1:def=\n"
        b"build\t-buildmode=c-shared\n"
    )
    crate = {"name": "memchr", "version": "2", "purl": "pkg:cargo/memchr@2?download_url=x", "author": "a"}
    listed = {"bomFormat": "CycloneDX", "components": [crate, {"name": "file without a package URL"}]}
    layer: Layer = {
        f"{SITE}/helm/libhelm.so": File(go),
        f"{SITE}/orjson-3.dist-info/sboms/orjson.json": File(orjson.dumps(listed)),
        f"{SITE}/orjson-3.dist-info/sboms/other.json": File(b'{"spdxVersion": "SPDX-2.3"}'),
    }

    found = bundled(layer)

    assert [one["purl"] for one in found] == [
        "pkg:cargo/memchr@2",
        "pkg:golang/example.org/fork@v2.0.0%2Bincompatible",
        "pkg:golang/example.org/sdk@v0.2.2",
        "pkg:golang/helm.sh/helm/v4@v4.2.3",
        "pkg:golang/stdlib@1.26.6",
    ]
    assert found[3]["properties"] == [{"name": "go.sum", "value": "h1:abc="}]
    assert "author" not in found[0]
