"""DROP-M3, USER-7 and USER-15: version, help, completion, suggested verbs, and output styles."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from typing import TYPE_CHECKING

import click
import pytest

from clusterstacks.csctl.main import csctl
from clusterstacks.csctl.shared import output, terminal
from clusterstacks.csctl.verb_table import GROUPS, SUGGESTIONS, VERBS
from clusterstacks.csctl.verbs.version import commit_of
from clusterstacks.model import yaml
from clusterstacks.net.http.client import HTTPClient
from tests.support.builders.tiny_stack import STAGES, tiny, write
from tests.support.running.csctl import call_csctl
from tests.support.servers.static_server import StaticServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.regression("USER-7")

RED = "\x1b[31m"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    for variable in ("NO_COLOR", "TERM", "CSCTL_TRACEBACK"):
        monkeypatch.delenv(variable, raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        return call_csctl(*arguments), *capsys.readouterr()

    return call


@pytest.mark.regression("DROP-M3")
def test_version_prints_the_two_lines_of_go_csctl(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # without a kubeconfig
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    installed = version("cluster-stacks")

    assert run("version") == (0, f"csctl version: {installed}\ncommit: unknown\n", "")
    assert json.loads(run("version", "-o", "json")[1]) == {"version": installed, "commit": "unknown"}


def test_version_of_csctl_is_printed_although_the_management_cluster_is_unreachable(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("clusterstacks.csctl.verbs.version.PATIENCE_SECONDS", 0.1)
    dead = {
        "clusters": [{"name": "dead", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "dead", "context": {"cluster": "dead"}}],
        "current-context": "dead",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(dead))

    code, out, err = run("version", "--kubeconfig", tmp_path / "kubeconfig")

    assert (code, len(out.splitlines())) == (0, 2)
    assert err.startswith("Warning: the management cluster is not reachable: ")


@pytest.mark.regression("DROP-M3")
@pytest.mark.parametrize(
    ("noted", "commit"),
    [
        (None, "unknown"),
        ('{"url": "file:///x", "dir_info": {"editable": true}}', "unknown"),
        ('{"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "66dc97a"}}', "66dc97a"),
    ],
)
def test_commit_is_read_from_the_installation_metadata(noted: str | None, commit: str) -> None:
    assert commit_of(noted) == commit


@pytest.mark.regression("USER-7")
@pytest.mark.parametrize("verb", [(), ("lint",), ("dev", "up"), ("compat", "check")])
def test_help_verb_prints_the_same_as_the_help_option(verb: tuple[str, ...], run: Run) -> None:
    assert run("help", *verb) == run(*verb, "--help")


@pytest.mark.regression("USER-7")
@pytest.mark.parametrize("arguments", [(), ("dev",), ("compat",)])
def test_without_a_verb_the_help_goes_to_standard_output(arguments: tuple[str, ...], run: Run) -> None:
    code, out, err = run(*arguments)

    assert (code, err) == (0, "")
    assert out.startswith(" ".join(("Usage: csctl", *arguments)))


@pytest.mark.regression("USER-7")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, run: Run) -> None:
    code, out, _ = run("completion", shell)

    assert code == 0
    assert f"_CSCTL_COMPLETE={shell}_complete" in out


@pytest.mark.regression("USER-7")
def test_completion_script_works_in_bash(run: Run) -> None:
    script = run("completion", "bash")[1]

    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=250)


@pytest.mark.regression("USER-7")
@pytest.mark.regression("U-6")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("auth", "csctl login"),
        ("tree", "csctl status"),
        ("pause", "csctl suspend"),
        ("log", "kubectl logs"),
        ("events", "kubectl events"),
        ("get", "kubectl get clusters"),
        ("fleet", "csctl status"),
        ("bundle", "csctl copy"),
        ("validate", "csctl lint"),
        ("build", "csctl create"),
        ("export", "csctl pull"),
        ("setup", "csctl install"),
        ("edit", "kubectl edit cluster NAME"),
        ("apply", "kubectl"),
        ("delete", "kubectl"),
        ("rm", "kubectl"),
        ("sync", "csctl reconcile"),
        ("check", "csctl install --check"),
        ("update", "csctl upgrade"),
        ("config", "kubectl config"),
        ("context", "--context"),
        ("get-credentials", "csctl kubeconfig"),
        ("Install", "did you mean install"),
        ("creat", "did you mean create?"),
        ("xyzzy", "'csctl help' lists the verbs"),
    ],
)
def test_verb_of_another_tool_suggests_the_equivalent(typed: str, meant: str, run: Run) -> None:
    code, _, err = run(typed)

    assert code == output.MUST_CHANGE
    assert err.startswith(f"Error: there is no verb '{typed}': ")
    assert meant in err


@pytest.mark.regression("U-7")
def test_u_7_the_help_lists_each_verb_once_under_what_a_user_does(run: Run) -> None:
    assert sorted(verb for verbs in GROUPS.values() for verb in verbs) == sorted(VERBS)

    lines = run("--help")[1].splitlines()

    assert [line[:-1] for line in lines if line[:-1] in GROUPS] == [*GROUPS]
    assert lines.index("Write stacks:") < lines.index("Use clusters:") < lines.index("Run the operator:")


@pytest.mark.regression("U-9")
def test_u_9_every_verb_with_an_output_format_has_text_json_and_yaml() -> None:
    context = click.Context(csctl)
    commands = [csctl.get_command(context, verb) for verb in VERBS]
    commands += [one for command in commands if isinstance(command, click.Group) for one in command.commands.values()]
    formats = {
        str(command.name): {*option.type.choices}
        for command in commands
        if command is not None
        for option in command.params
        if option.name == "form" and isinstance(option.type, click.Choice)
    }

    assert len(formats) > 25
    assert {name for name, known in formats.items() if not {"json", "yaml"} <= known} == set()
    assert {name for name, known in formats.items() if "text" not in known} == {"template"}


@pytest.mark.regression("U-9")
def test_u_9_json_and_yaml_are_the_same_document(run: Run) -> None:
    assert yaml.load(run("version", "--client", "-o", "yaml")[1], name="out") == json.loads(
        run("version", "--client", "-o", "json")[1]
    )


@pytest.mark.regression("USER-7")
def test_suggested_names_are_not_verbs_themselves() -> None:
    assert not {*SUGGESTIONS} & {*VERBS}


@pytest.mark.regression("USER-15")
@pytest.mark.parametrize(
    ("colour", "environ", "coloured"),
    [
        ("auto", {}, None),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": ""}, None),
        ("auto", {"TERM": "dumb"}, False),
        ("auto", {"TERM": "xterm"}, None),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", {}, False),
    ],
)
def test_colours_follow_option_and_environment(
    colour: str, environ: dict[str, str], *, coloured: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert terminal.OutputSettings(colour=colour).colours is coloured


@pytest.mark.regression("USER-15")
@pytest.mark.parametrize("arguments", [("--color", "always", "lint"), ("lint", "--color=always")])
def test_lint_and_errors_are_coloured_on_request_anywhere_on_the_line(
    arguments: tuple[str, ...], run: Run, tmp_path: Path
) -> None:
    stack = write(tmp_path / "stack", tiny({"clusteraddon.yaml": STAGES.replace("apply", "aply")}))

    assert RED in run(*arguments, stack)[1]
    assert RED in run(*arguments, stack, "--kubernetes", "1-20")[2]
    assert RED not in run("lint", stack)[1]


@pytest.mark.regression("USER-15")
def test_quiet_prints_only_results_and_warnings(run: Run, tmp_path: Path) -> None:
    stack = write(tmp_path / "stack", {**tiny(), "a~": b""})
    arguments = ("create", stack, "--remote", "none", "-d", tmp_path / "out")

    loud, quiet = run(*arguments), run("-q", *arguments)

    assert "first release" in loud[2]
    assert quiet[:2] == loud[:2]
    assert quiet[2].splitlines() == [line for line in loud[2].splitlines() if line.startswith("Warning: ")]
    assert len(quiet[2].splitlines()) == 1
    assert run("lint", "-q")[2].startswith("Usage: ")


@pytest.mark.regression("USER-15")
@pytest.mark.parametrize("arguments", [("-v", "template"), ("template", "--verbose")])
def test_verbose_prints_the_traceback_of_an_error(arguments: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"csctl.yaml": b"config: {}\n"})

    code, _, err = run(*arguments, tmp_path)

    assert code == output.MUST_CHANGE
    assert "Traceback" in err
    assert "\nError: " in err
    assert "Traceback" not in run("template", tmp_path)[2]


@pytest.mark.regression("USER-15")
async def test_verbose_prints_requests_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "SETTINGS", terminal.OutputSettings(verbose=True))
    (tmp_path / "file").write_text("content")
    async with StaticServer.started(tmp_path) as server, HTTPClient(trace=output.trace) as web:
        await web.read(f"{server.url}/file?token=secret", limit=10, headers={"Authorization": "Basic secret"})

    assert capsys.readouterr().err == f"GET {server.url}/file: 200\n"


@pytest.mark.regression("USER-10")
def test_every_verb_and_each_of_its_commands_has_an_example() -> None:
    context = click.Context(csctl)
    assert VERBS.keys() == set(csctl.list_commands(context))
    for verb, (_, _, examples) in VERBS.items():
        command = csctl.get_command(context, verb)
        commands = set(command.commands) if isinstance(command, click.Group) else set()
        assert commands <= {one.split()[0] for one in examples if one}


@pytest.mark.regression("USER-10")
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_of_every_verb_ends_with_valid_examples(verb: str, run: Run) -> None:
    """Mistake 36: none of the verbs had an example."""
    command = csctl.get_command(csctl.make_context("csctl", ["version"]), verb)
    assert command is not None
    commands = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
    known = {name for each in commands for one in each.params for name in (*one.opts, *one.secondary_opts)}

    code, out, _ = run(verb, "--help")

    assert code == 0
    for example in VERBS[verb].examples:
        assert f"  csctl {verb} {example}".rstrip() in out
        options, *_ = example.partition("|")
        assert {word for word in options.split() if word.startswith("-")} <= known
