from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.semver import Constraint
from clusterstacks.release.charts.requirements import (
    MAX_REQUIREMENTS,
    ChartInvalid,
    WantedChart,
    held,
    lacking,
    lock_digest,
    locked,
    requirements,
    unmet,
)
from tests.support.servers.chart_repository import packaged

if TYPE_CHECKING:
    from collections.abc import Mapping


REPOSITORY = "https://charts.example.com"
# Computed with encoding/json of Go from the fields of Helm's type Dependency.
DIGEST = "sha256:2b75d9d5161e5fd9d1e21036f763f51ad48913eede961f5c56a125092fd41c42"
HELM2_DIGEST = "sha256:cb10c6068942dd209cac0701ede2db1df28a47f3e0adf9adf6b8c9436380f382"
RICH_DIGEST = "sha256:1daa2cffbd9b8b8aadff92ddb86f2760ef37525e38db5e290e30fba628d8355c"


def chart(*dependencies: str, old: bool = False, beside: Mapping[str, str | bytes] | None = None) -> dict[str, bytes]:
    text = "".join(f"- {{{dependency}}}\n" for dependency in dependencies)
    declared = f"dependencies:\n{text}" if text else ""
    head = f"apiVersion: {'v1' if old else 'v2'}\nname: web\nversion: 1.0.0\n"
    files: dict[str, str | bytes] = {"Chart.yaml": head if old else head + declared, **(beside or {})}
    if old:
        files["requirements.yaml"] = declared
    return {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}


def cache(version: str = "~1.2", name: str = "cache") -> str:
    return f"name: {name}, version: '{version}', repository: {REPOSITORY}"


def lock(version: str = "1.2.7", digest: str = DIGEST, name: str = "cache") -> str:
    return f"dependencies:\n- {{{cache(version, name)}}}\ndigest: {digest}\ngenerated: '2026-01-01T00:00:00Z'\n"


def test_a_chart_without_dependencies_requires_nothing() -> None:
    assert requirements(chart(), "web") == lacking(chart(), "web") == unmet(chart(), "web") == ()


@pytest.mark.parametrize("old", [False, True])
def test_dependencies_of_chart_api_v1_and_v2_are_read(*, old: bool) -> None:
    (found,) = requirements(chart(cache(), old=old), "web")

    assert (found.name, str(found.constraint), found.repository) == ("cache", "~1.2", REPOSITORY)


@pytest.mark.parametrize(
    ("old", "file", "digest"),
    [(False, "Chart.lock", DIGEST), (True, "requirements.lock", DIGEST), (True, "requirements.lock", HELM2_DIGEST)],
)
def test_matching_lock_file_gives_the_exact_version(*, old: bool, file: str, digest: str) -> None:
    (found,) = locked(chart(cache(), old=old, beside={file: lock(digest=digest)}), "web")

    assert (found.locked, found.exact, str(found)) == ("1.2.7", "1.2.7", "cache 1.2.7")


def test_lock_digest_covers_every_field_as_go_encodes_it() -> None:
    database = {"name": "db", "version": "^2", "repository": "oci://r.example/charts"}
    wanted = {
        "import-values": ["data", {"parent": "x", "child": "ü"}],
        "alias": "main",
        "unknown": 1,
        "tags": ["a", "b&c"],
        "enabled": True,
        "condition": "cache.enabled",
        "version": ">=1.2 <2",
        "repository": REPOSITORY,
        "name": "cache",
    }
    found = [{"name": "cache", "version": "1.2.7", "repository": REPOSITORY}, database | {"version": "2.3.4"}]

    assert lock_digest([wanted, database], found) == RICH_DIGEST


@pytest.mark.parametrize(("version", "read"), [("1", "1"), ("1.2", "1.2"), ("2.0", "2"), ("'1.10'", "1.10")])
def test_numeric_version_is_read_as_helm_reads_it(version: str, read: str) -> None:
    (found,) = requirements(chart(f"name: cache, version: {version}"), "web")

    assert str(found.constraint) == read


def test_lock_digest_converts_boolean_tags_as_helm_does() -> None:
    assert lock_digest([{"tags": ["x", True]}], []) == lock_digest([{"tags": ["x", "true"]}], [])


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (cache("~1.3"), lock()),
        (cache(), lock("1.2.8")),
        (cache(name="other"), lock()),
        (cache(), lock(digest=HELM2_DIGEST)),
        (cache(), "{}"),
    ],
)
def test_lock_file_of_other_dependencies_is_rejected(declared: str, text: str) -> None:
    with pytest.raises(SpecError, match=r"web: Chart\.lock does not match .* run helm dependency update"):
        locked(chart(declared, beside={"Chart.lock": text}), "web")


def test_lock_file_with_a_disallowed_version_is_rejected() -> None:
    requirement = {"name": "cache", "version": "~1.2", "repository": REPOSITORY}
    digest = lock_digest([requirement], [requirement | {"version": "1.3.0"}])

    with pytest.raises(ChartInvalid, match=r"the chart requires ~1\.2"):
        locked(chart(cache(), beside={"Chart.lock": lock("1.3.0", digest)}), "web")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("charts/cache-1.2.9.tgz", packaged("cache", "1.2.9")),
        ("charts/any.tgz", packaged("cache", "v1.2.9")),
        ("charts/cache/Chart.yaml", b"name: cache\nversion: 1.2.9\n"),
    ],
)
def test_fitting_vendored_chart_is_not_missing(path: str, content: bytes) -> None:
    files = chart(cache(), beside={path: content, "Chart.lock": lock()})

    assert lacking(files, "web") == unmet(files, "web") == ()


@pytest.mark.parametrize(
    "path", ["charts/.cache-1.2.9.tgz", "charts/_cache-1.2.9.tgz", "charts/cache-1.2.9.tar", "charts/a/cache-1.2.9.tgz"]
)
def test_file_that_helm_does_not_load_is_not_a_vendored_chart(path: str) -> None:
    files = chart(cache(), beside={path: packaged("cache", "1.2.9")})

    assert held(files, "web") == {}
    assert [str(requirement) for requirement in lacking(files, "web")] == ["cache ~1.2"]


@pytest.mark.parametrize("version", ["1.3.0", "none"])
def test_vendored_chart_of_another_version_is_missing_for_authors_but_rendered_by_helm(version: str) -> None:
    files = chart(cache(), beside={"charts/cache.tgz": packaged("cache", version)})

    assert len(lacking(files, "web")) == 1
    assert unmet(files, "web") == ()


def test_invalid_version_is_ignored_if_the_chart_is_vendored() -> None:
    files = chart(cache("2.31.2a"), beside={"charts/cache.tgz": packaged("cache", "1.0.0")})

    assert unmet(files, "web") == ()
    with pytest.raises(ChartInvalid, match="expected a version or a constraint"):
        lacking(files, "web")


@pytest.mark.parametrize(
    "declared",
    [
        "version: 1.0.0, repository: https://x.example",
        "name: ../../etc, version: 1.0.0",
        "name: a/b, version: 1.0.0",
        "name: cache, version: ''",
        "name: cache, version: 1.0.0, repository: [1]",
        'name: cache, version: 1.0.0, repository: "https://a\\nb"',
        f"name: cache, version: 1.0.0, repository: https://{'a' * 2000}",
        'name: cache, version: "1 \\n 2"',
    ],
)
def test_invalid_dependency_names_its_field(declared: str) -> None:
    with pytest.raises(ChartInvalid, match=r"web: Chart\.yaml: dependencies\[0\]\."):
        requirements(chart(declared), "web")


def test_same_dependency_twice_needs_an_alias() -> None:
    assert len(requirements(chart(cache("1"), f"{cache('2')}, alias: second"), "web")) == 2
    with pytest.raises(ChartInvalid, match=r"dependencies\[1\]\.name is 'cache': .* add a unique alias"):
        requirements(chart(cache("1"), cache("2")), "web")


def test_number_of_dependencies_is_limited() -> None:
    with pytest.raises(SpecError, match=f"at most {MAX_REQUIREMENTS}"):
        requirements(chart(*[cache()] * (MAX_REQUIREMENTS + 1)), "web")


PUBLISHED = ["1.2.3", "v1.10.0", "1.9.0", "2.0.0-rc.1", "latest", "1.4.0+b1", "1.4.0+b2", "1.2.3"]


@pytest.mark.parametrize(
    ("constraint", "exact", "chosen"),
    [
        ("*", "", "v1.10.0"),
        ("<1.10", "", "1.9.0"),
        (">=1-0", "", "2.0.0-rc.1"),
        ("2.0.0-rc.1", "", "2.0.0-rc.1"),
        ("~1.4", "", "1.4.0+b2"),
        ("3", "", None),
        ("1.10.0", "", "v1.10.0"),
        ("1.4.0", "", "1.4.0+b2"),
        ("*", "1.2.3", "1.2.3"),
        ("*", "v1.2.3", "1.2.3"),
        ("*", "1.10.0", "v1.10.0"),
        ("*", "1.4.0+b1", "1.4.0+b1"),
        ("*", "1.4.0", None),
        ("*", "1.2.4", None),
    ],
)
def test_exact_or_newest_allowed_version_is_chosen(constraint: str, exact: str, chosen: str | None) -> None:
    wanted = WantedChart("cache", Constraint.parse(constraint), exact)

    assert wanted.choose(PUBLISHED) == wanted.choose(reversed(PUBLISHED)) == chosen
