"""USER-6: ``-o`` is an output format; for create and pull it can also be a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from clusterstacks.csctl.shared.options import form_and_directory
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.builders.tiny_stack import tiny, write
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.regression("USER-6")

DEFAULT = Path(".release")
MADE = "test-tiny-1-35-v1"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        return call_csctl(*arguments), *capsys.readouterr()

    return call


@pytest.mark.regression("USER-6")
@pytest.mark.parametrize(
    ("wanted", "given", "form", "directory"),
    [
        ("text", None, "text", DEFAULT),
        ("json", None, "json", DEFAULT),
        ("yaml", None, "yaml", DEFAULT),
        ("json", Path("a"), "json", Path("a")),
        ("./json", None, "text", Path("json")),
        ("out", None, "text", Path("out")),
        ("/srv/out", None, "text", Path("/srv/out")),
        ("text", Path("json"), "text", Path("json")),
    ],
)
def test_output_option_is_a_format_or_a_directory(wanted: str, given: Path | None, form: str, directory: Path) -> None:
    assert form_and_directory(wanted, given, DEFAULT) == (form, directory)


@pytest.mark.regression("USER-6")
@pytest.mark.parametrize(
    ("wanted", "given", "message"),
    [
        ("sarif", None, "-o is sarif (expected text, json or yaml; for a directory of this name use ./sarif)"),
        ("out", Path("other"), "-o out and -d other both name a directory: remove one"),
        (__file__, None, "is a file (expected a directory)"),
    ],
)
def test_ambiguous_output_option_is_rejected(wanted: str, given: Path | None, message: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        form_and_directory(wanted, given, DEFAULT)

    assert message in refused.value.message


@pytest.mark.regression("USER-6")
@pytest.mark.parametrize("option", ["-o", "--output", "-d", "--output-dir"])
def test_create_accepts_the_output_options_of_go_csctl(option: str, run: Run, tmp_path: Path) -> None:
    write(tmp_path / "stack", tiny())

    assert run("create", "stack", "--remote", "none", option, "built")[:2] == (0, f"Created built/{MADE}\n")


@pytest.mark.regression("USER-6")
def test_create_prints_json_to_stdout_and_progress_to_stderr(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "stack", tiny())
    (tmp_path / "remote").mkdir()
    arguments = ("create", "stack", "--remote", "directory", "--remote-dir", "remote", "--publish", "-o", "json")

    code, out, err = run(*arguments)
    again = run(*arguments)

    assert (code, json.loads(out)) == (
        0,
        {"releases": [{"release": MADE, "directory": f"{tmp_path}/.release/{MADE}", "new": True}]},
    )
    assert f"{MADE} is published in " in err
    assert (again[0], json.loads(again[1])) == (3, {"releases": []})
    assert not (tmp_path / "json").exists()


@pytest.mark.regression("USER-5")
def test_init_in_an_empty_repository_ignores_releases_and_keys(run: Run, tmp_path: Path) -> None:
    given = run("init", "local/shop/1-35", "stack")[1]
    begun = run("init", "local/shop/1-35")[1]
    (tmp_path / ".gitignore").write_text("mine\n")
    again = run("init", "local/other/1-35")[1]

    assert given.splitlines()[0].startswith("stack/")
    assert begun.splitlines()[-1] == ".gitignore"
    assert ".gitignore" not in given.splitlines() + again.splitlines()
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


@pytest.mark.regression("USER-6")
def test_every_verb_of_a_pipeline_prints_json(run: Run, tmp_path: Path) -> None:
    write_release(tmp_path / "there" / STAGED.release, staged_release())

    begun = json.loads(run("init", "local/shop/1-35", "new", "-o", "json")[1])
    listed = json.loads(run("index", "there", "-o", "json")[1])
    pulled = json.loads(run("pull", f"there:{STAGED}", "-o", "json", "-d", "here")[1])
    key = json.loads(run("sign", "--new-key", "k", "-o", "json")[1])
    signed = json.loads(run("sign", f"here/{STAGED}", "--key", "k", "-o", "json")[1])
    verified = json.loads(run("verify", f"here/{STAGED}", "--key", "k.pub", "-o", "json")[1])

    assert begun["directory"] == "new"
    assert "new/csctl.yaml" in begun["files"]
    assert listed == {"index": "there/index.json"}
    assert pulled["directory"] == f"{tmp_path}/here/{STAGED}"
    assert pulled["manifestDigest"] is None
    assert key == {"privateKey": "k", "publicKey": "k.pub"}
    assert signed["release"] == STAGED.release
    assert signed["new"]
    assert verified["contentDigest"] == pulled["contentDigest"]
    assert not (tmp_path / "json").exists()


@pytest.mark.regression("USER-6")
@pytest.mark.parametrize("what", [(), ("--class",), ("--sample",), ("--values",), ("--images",)])
def test_template_prints_the_same_objects_as_json(what: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    write(tmp_path / "stack", tiny())

    code, text, _ = run("template", "stack", *what)
    document = json.loads(run("template", "stack", *what, "-o", "json")[1])

    assert code == 0
    if what == ("--images",):
        assert document == text.splitlines()
    elif what == ("--values",):
        assert document == {"net": {"cluster": "sample"}}
    else:
        assert [one["kind"] for one in document["items"]] == [
            line.removeprefix("kind: ") for line in text.splitlines() if line.startswith("kind: ")
        ]
