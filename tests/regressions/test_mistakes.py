"""USER-10: mistakes with keys and release directories are reported with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.release.signing.keys import parse_private_key
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.builders.tiny_stack import tiny, write
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.regression("USER-10")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        return call_csctl(*arguments), *capsys.readouterr()

    return call


@pytest.fixture
def release(tmp_path: Path, run: Run) -> Path:
    assert run("sign", "--new-key", "mine")[0] == 0
    assert run("sign", "--new-key", "other")[0] == 0
    return write_release(tmp_path / STAGED.release, staged_release())


@pytest.mark.regression("USER-10")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1\n", "f, line 2: found a tab character that violates indentation: indent with spaces"),
        ("a: @b\n", "f, line 1: found character that cannot start any token: put the text into quotes"),
        ("a: b: c\n", "mapping values are not allowed in this context: correct the indentation, or put the text into"),
        ("a: [b\n", "did not find expected ',' or ']': close the bracket, or write a comma"),
        ("- a\n b\n- c: 1\n  d\n", "could not find expected ':': write a colon and a space behind the key"),
        ("a: 'b\n", "found unexpected end of stream: close the quotes or brackets"),
    ],
)
def test_yaml_syntax_error_has_a_remedy(text: str, message: str) -> None:
    with pytest.raises(yaml.YamlError) as refused:
        yaml.load(text, name="f")

    assert message in refused.value.message


@pytest.mark.regression("USER-10")
def test_create_prints_the_same_errors_as_lint(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "stack", {**tiny(), "csctl.yaml": b"config:\n\ta: 1\n"})

    assert run("create", "stack", "--remote", "none")[2] == (
        "Error: stack: csctl.yaml, line 2: found a tab character that violates indentation: "
        "indent with spaces instead of tabs\n"
    )


@pytest.mark.regression("USER-10")
def test_signature_by_another_key_is_explained_line_by_line(run: Run, release: Path) -> None:
    run("sign", release, "--key", "mine")

    code, _, err = run("verify", release, "--key", "other.pub")

    assert code == output.NEGATIVE
    first, second = err.splitlines()
    assert first == (
        f"Error: {STAGED} is not signed by any of the given keys: ask its publisher to sign it with a key that "
        "you trust, and do not use it until then"
    )
    assert second.startswith("  envelope 1: it is by ")


@pytest.mark.regression("USER-10")
def test_openssh_key_is_rejected_with_the_supported_formats(tmp_path: Path) -> None:
    text = b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"

    with pytest.raises(SpecError, match=r"keys in the format of OpenSSH are not read; make one with 'csctl sign"):
        parse_private_key(text, name=str(tmp_path / "id"))


@pytest.mark.regression("USER-10")
def test_world_readable_private_key_gives_a_warning(run: Run, release: Path, tmp_path: Path) -> None:
    before = run("sign", release, "--key", "mine")
    (tmp_path / "mine").chmod(0o644)

    after = run("sign", release, "--key", "mine")

    assert before[2] == ""
    assert (after[0], after[2]) == (
        0,
        "Warning: mine: other users of this machine can read this private key: chmod 600 mine\n",
    )
    assert "Warning" not in run("sign", release, "--key", "mine.pub")[2]


@pytest.mark.regression("USER-10")
@pytest.mark.parametrize("verb", [("sign", "a", "--key", "mine"), ("push", "a", "r.example/x")])
def test_directory_that_is_not_a_release_is_reported(
    verb: tuple[str, ...], run: Run, release: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()

    code, _, err = run(*verb)

    assert release.is_dir()
    assert code == output.MUST_CHANGE
    assert "a is not a release directory: it has no metadata.yaml; use one from 'csctl create'" in err


@pytest.mark.regression("USER-10")
def test_leftover_file_in_a_release_is_not_published(run: Run, release: Path) -> None:
    (release / ".DS_Store").touch()

    code, _, err = run("push", release, "127.0.0.1:1/x")

    assert code == output.MUST_CHANGE
    assert f"{release}/.DS_Store is a leftover of an editor or operating system" in err
    assert err.endswith("would be published: delete it\n")
