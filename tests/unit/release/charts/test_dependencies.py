from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.semver import Constraint
from clusterstacks.release.charts.dependencies import (
    MAX_REQUIREMENTS,
    ChartInvalid,
    ChartRequirement,
    held,
    lacking,
    locked,
    requirements,
    unmet,
)
from tests.support.servers.chart_repository import packaged

if TYPE_CHECKING:
    from collections.abc import Mapping


REPOSITORY = "https://charts.example.com"


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


def lock(version: str = "1.2.7", name: str = "cache") -> str:
    return f"dependencies:\n- {{{cache(version, name)}}}\ndigest: sha256:00\ngenerated: '2026-01-01T00:00:00Z'\n"


def test_a_chart_without_dependencies_requires_nothing() -> None:
    assert requirements(chart(), "web") == lacking(chart(), "web") == unmet(chart(), "web") == ()


@pytest.mark.parametrize("old", [False, True])
def test_dependencies_of_chart_api_v1_and_v2_are_read(*, old: bool) -> None:
    (found,) = requirements(chart(cache(), old=old), "web")

    assert (found.name, str(found.constraint), found.repository) == ("cache", "~1.2", REPOSITORY)


@pytest.mark.parametrize(("old", "file"), [(False, "Chart.lock"), (True, "requirements.lock")])
def test_matching_lock_file_gives_the_exact_version(*, old: bool, file: str) -> None:
    (found,) = locked(chart(cache(), old=old, beside={file: lock()}), "web")

    assert (found.locked, found.exact, str(found)) == ("1.2.7", "1.2.7", "cache 1.2.7")


def test_lock_file_of_a_dependency_without_a_repository_names_its_constraint() -> None:
    text = "dependencies:\n- {name: cache, version: 1.x.x, repository: ''}\ndigest: sha256:00\n"

    (found,) = locked(chart("name: cache, version: 1.x.x", beside={"Chart.lock": text}), "web")

    assert (found.locked, str(found)) == ("", "cache 1.x.x")


@pytest.mark.parametrize(("version", "read"), [("1", "1"), ("1.2", "1.2"), ("2.0", "2"), ("'1.10'", "1.10")])
def test_numeric_version_is_read_as_helm_reads_it(version: str, read: str) -> None:
    (found,) = requirements(chart(f"name: cache, version: {version}"), "web")

    assert str(found.constraint) == read


@pytest.mark.parametrize(
    ("declared", "text", "problem"),
    [
        (cache("~1.3"), lock(), "it has cache 1.2.7, but the chart requires ~1.3"),
        (cache(name="other"), lock(), f"it lists cache of {REPOSITORY}"),
        (cache().replace("charts.", "old."), lock(), f"it lists cache of {REPOSITORY}"),
        (cache(), "{}", "it lists nothing"),
    ],
)
def test_lock_file_of_other_dependencies_is_rejected(declared: str, text: str, problem: str) -> None:
    complaint = f"web: Chart.lock does not match the dependencies of the chart: {problem}; run helm dependency update"
    with pytest.raises(SpecError, match=re.escape(complaint)):
        locked(chart(declared, beside={"Chart.lock": text}), "web")


@pytest.mark.parametrize("version", ["~1.2", "", "latest"])
def test_lock_file_without_an_exact_version_is_rejected(version: str) -> None:
    with pytest.raises(ChartInvalid, match=r"a lock file names exact versions: run helm dependency update"):
        locked(chart(cache(), beside={"Chart.lock": lock(version)}), "web")


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
    wanted = ChartRequirement("cache", Constraint.parse(constraint), REPOSITORY, exact)

    assert wanted.choose(PUBLISHED) == wanted.choose(reversed(PUBLISHED)) == chosen
