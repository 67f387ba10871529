"""Writes the reference pages that are generated from the code: ``make docs``. A test checks that they are current.

Custom resources come from their definitions, the operator's flags from its parser, csctl's verbs from click, the rules
of lint from their list, the metrics from their registry.
"""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.api.crd_manifests import TERMS, all_crds
from clusterstacks.api.yaml import dump
from clusterstacks.authoring.linter import BEFORE_BUILD, REFUSED, RULES
from clusterstacks.cli.main import csctl
from clusterstacks.cli.shared.output import EXIT_CODES
from clusterstacks.operator.go_operator import WITHOUT_MEANING
from clusterstacks.operator.rbac import RIGHTS, TAKE_OVER_RIGHTS, Right, RightScope, policy_rules
from clusterstacks.operator.settings import option_parser
from clusterstacks.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGES = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py; edit the code and run `make docs`. -->\n"

RIGHTS_PREFACE = """\
This list of the operator's rights in the management cluster is complete: a test runs the operator with these rights
only. In workload clusters it uses the kubeconfig that Cluster API publishes. If a right is missing, a condition or a
line of the log names the verb and the resource.

Secrets are listed separately. The operator gets them by name and never lists or watches them. It uses a kubeconfig only
if its Secret is marked as a Secret of Cluster API. So grant `get` of Secrets by one RoleBinding in each namespace that
contains Clusters or ClusterStacks, instead of a ClusterRoleBinding.
"""

RIGHTS_NOTES = """
- A resource `*` means the kinds of your providers. To grant less, list them one by one, for example `get`, `create`,
  `patch` and `delete` of `openstackclustertemplates`, and `get` of `openstackclusters`.
- Kinds of `--class-kinds` need `get`, `create`, `patch` and `delete`; kinds of `--provider-kinds` in another group need
  `get`, `list`, `watch`, `create` and `patch`; control plane and infrastructure kinds in another group need `get`.
- If the admission plugin OwnerReferencesPermissionEnforcement is enabled, kinds of `--provider-kinds` also need
  `delete`, because the operator makes the ClusterStackRelease the owner of its provider object. Without `delete` of the
  ValidatingWebhookConfiguration, that object has no owner: delete it yourself when you uninstall the operator.
- With `--namespace`, grant the rights on namespaced resources in that namespace only, except `list` of Clusters, and
  `get` of ClusterStacks and ClusterStackReleases in other namespaces whose classes are used.
- Discovery (`/api`, `/apis`) and `/readyz` are open to every user in Kubernetes' default roles `system:discovery` and
  `system:public-info-viewer`.
"""


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {
        "resources.md": "\n".join(_resources()),
        "operator.md": "\n".join(_operator()),
        "csctl.md": "\n".join(_csctl()),
        "rights.md": "\n".join(_rights()),
        "metrics.md": "\n".join(_metrics()),
        "lint-rules.md": "\n".join(_lint_rules()),
    }


def _resources() -> Iterator[str]:
    yield f"{NOTE}\n# Custom resources\n"
    yield "Group `clusterstack.x-k8s.io`, version `v1alpha1`. Every object valid for the Go operator is valid here."
    yield "The [glossary](../explanation/glossary.md) explains the terms.\n"
    for crd in all_crds():
        names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
        schema = version["schema"]["openAPIV3Schema"]
        yield f"## {names['kind']}\n"
        short = ", ".join(f"`{one}`" for one in names["shortNames"])
        yield f"{schema['description'].removesuffix(TERMS).strip()} Short names: {short}.\n"
        yield "| field | type | meaning |\n|---|---|---|"
        for part in ("spec", "status"):
            yield from _fields(part, schema["properties"].get(part, {}))
        yield ""


def _fields(path: str, schema: dict[str, Any]) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for name, below in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        kind, inner = _type(below)
        must = " (required)" if name in required else ""
        yield f"| `{here}` | {kind}{must} | {_described(below)} |"
        suffix = "[]" if below.get("type") == "array" else ""
        if name != "conditions":
            yield from _fields(f"{here}{suffix}", inner)


def _type(schema: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])[0]}", schema["items"]
    return str(schema.get("type", "any")), schema


def _described(schema: dict[str, Any]) -> str:
    text = _plain(schema.get("description", ""))
    if "enum" in schema:
        text += f" One of {', '.join(f'`{one}`' for one in schema['enum'])}."
    if schema.get("default") not in (None, "", [], {}):
        text += f" Default `{_written(schema['default'])}`."
    if "pattern" in schema:
        text += f" Form `{_cell(schema['pattern'])}`."
    return text


def _written(value: object) -> str:
    """Write a default as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _metrics() -> Iterator[str]:
    yield f"{NOTE}\n# Metrics\n"
    yield "The operator serves them at `--metrics-bind-address`, path `/metrics`. No metric has a label per object."
    yield "For metrics and alerts to use see [run the operator](../how-to/run-the-operator.md#monitor-the-operator).\n"
    yield "| metric | type | labels | meaning |\n|---|---|---|---|"
    registry = Metrics().registry
    for collector in registry._collector_to_names:  # noqa: SLF001 - the registry has no public way to list labels
        labels = getattr(collector, "_labelnames", None)
        if labels is None:
            continue  # the process metrics of the client library
        for metric in collector.collect():
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            shown = ", ".join(f"`{label}`" for label in labels)
            yield f"| `{name}` | {metric.type} | {shown} | {_plain(metric.documentation)} |"
    yield "\nA histogram has the series `_bucket`, `_sum` and `_count`. The metrics `process_*` are those of the"
    yield "Prometheus client library: memory, CPU time, open files, start time.\n"


def _operator() -> Iterator[str]:
    yield f"{NOTE}\n# cluster-stack-operator\n"
    yield "| flag | default | meaning |\n|---|---|---|"
    for action in option_parser()._actions:  # noqa: SLF001 - argparse has no public way to list its options
        if action.help == argparse.SUPPRESS or "--help" in action.option_strings:
            continue
        choices = f" One of {', '.join(action.choices)}." if action.choices else ""
        yield f"| `{action.option_strings[0]}` | {_default(action.default)} | {_starred(action.help or '')}.{choices} |"
    yield "\nThese flags of the Go operator have no effect here. The operator accepts them with a notice:\n"
    yield "| flag | instead |\n|---|---|"
    yield from (f"| `--{name}` | {instead} |" for name, instead in WITHOUT_MEANING.items())
    yield "\nThe exit status is 0 after a graceful stop (SIGTERM, SIGINT), and 1 if a part of the process ended.\n"


def _starred(text: str) -> str:
    """Keep ``*`` from being taken for emphasis."""
    return text.replace("*", "\\*")


def _default(value: object) -> str:
    if isinstance(value, tuple):
        return f"`{value[0]}:{value[1]}`"
    if value is True:
        return "`true`"
    return f"`{value}`" if value not in ("", None, False, argparse.SUPPRESS) else ""


def _rights() -> Iterator[str]:
    yield f"{NOTE}\n# Rights of cluster-stack-operator\n"
    yield RIGHTS_PREFACE
    yield from _table(RIGHTS)
    yield RIGHTS_NOTES
    yield "To [replace the Go operator](../how-to/replace-the-go-operator.md), it needs these once in addition:\n"
    yield from _table(TAKE_OVER_RIGHTS)
    yield "\n## As manifests\n"
    yield "```yaml"
    yield "---\n".join(dump(one) for one in _roles()) + "```\n"


def _table(rights: Iterable[Right]) -> Iterator[str]:
    yield "| group | resources | verbs | where | why |\n|---|---|---|---|---|"
    for right in rights:
        names = f" named {', '.join(f'`{name}`' for name in right.names)}" if right.names else ""
        resources = ", ".join(f"`{_cell(one)}`" for one in right.resources)
        yield (
            f"| {f'`{right.group}`' if right.group else 'core'} | {resources}{names} | {', '.join(right.verbs)} "
            f"| {right.scope.value} | {right.why} |"
        )


def _roles() -> Iterator[dict[str, Any]]:
    name = "cluster-stack-operator"
    for kind, suffix, scopes in (
        ("ClusterRole", "", (RightScope.CLUSTER,)),
        ("ClusterRole", "-secrets", (RightScope.CLUSTERS,)),
        ("Role", "-webhook", (RightScope.OWN,)),
    ):
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": f"{name}{suffix}"},
            "rules": policy_rules(*scopes),
        }


def _csctl() -> Iterator[str]:
    yield f"{NOTE}\n# csctl\n"
    yield from _command("csctl", csctl)
    yield "## Exit codes\n"
    yield "| code | meaning |\n|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    yield "\ncsctl written in Go exits with 1 after every error. Scripts for both test for any code but 0.\n"


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"## {path}\n"
    yield f"{_plain(inspect.cleandoc(command.help or ''))}\n"
    options = [record for one in command.params if (record := one.get_help_record(context))]
    if not isinstance(command, click.Group):
        pieces = " ".join(command.collect_usage_pieces(context))
        yield f"```text\n{path} {pieces}\n```\n"
    if options:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{name.replace('|', '/')}` | {_plain(' '.join(text.split()))} |" for name, text in options)
        yield ""
    if command.epilog:
        examples = [line.strip() for line in command.epilog.splitlines() if line.strip().startswith(path)]
        yield "\n".join(("```sh", *examples, "```", ""))
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            below = command.get_command(context, name)
            if below is not None:
                yield from _command(f"{path} {name}", below)


def _lint_rules() -> Iterator[str]:
    yield f"{NOTE}\n# Rules of csctl lint\n"
    yield "An error means that a release cannot be built or does not work. A warning marks something that works now but"
    yield "may break later or behave unexpectedly; it does not change the exit code. `csctl create` refuses to build if"
    yield f"{' or '.join(f'`{one}`' for one in sorted(REFUSED))} has a finding. It prints the findings of these rules"
    yield f"as warnings, and refuses them with `--strict`: {', '.join(f'`{one.id}`' for one in BEFORE_BUILD)}.\n"
    yield "| rule | severity | requirement |\n|---|---|---|"
    yield from (f"| `{rule.id}` | {rule.severity.value} | {_plain(rule.summary)} |" for rule in RULES)
    yield ""


def _plain(text: str) -> str:
    """Keep ``<name>`` from being taken for markup, and ``|`` for the end of a table's cell."""
    return _cell(text.replace("<", "&lt;"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (PAGES / name).write_text(text)
