"""Writes the reference pages, schemas and the man page that are generated from the code: ``make docs``.

A test checks that they are current.

Custom resources come from their definitions, the operator's flags from its parser, csctl's verbs from click, the rules
of lint from their list, the metrics from their registry.
"""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.authoring.file_schemas import all_schemas, file_schemas, schema_text
from clusterstacks.csctl.authoring.linter import BEFORE_BUILD, REFUSED, RULES
from clusterstacks.csctl.install import preflight
from clusterstacks.csctl.main import csctl
from clusterstacks.csctl.shared.output import EXIT_CODES
from clusterstacks.model.files.definitions import schema
from clusterstacks.model.files.facts import FactsFile
from clusterstacks.model.files.hashes import Hashes
from clusterstacks.model.kinds.crd_manifests import TERMS, all_crds
from clusterstacks.model.kinds.explanations import CONDITIONS, REASONS
from clusterstacks.model.yaml import dump
from clusterstacks.operator.go_operator import WITHOUT_MEANING
from clusterstacks.operator.rbac import RIGHTS, TAKE_OVER_RIGHTS, Right, RightScope, policy_rules
from clusterstacks.operator.settings import option_parser
from clusterstacks.runtime.controller_runtime_metrics import ALIASES
from clusterstacks.runtime.log_format import FIELDS
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.object_problem_metrics import NAMED_OBJECTS
from tools.man_page import man_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

PAGES = Path(__file__).parent / "reference"
MAN_PAGE = Path(__file__).parent / "man" / "csctl.1"
SCHEMAS = Path(__file__).parents[1] / "schemas"
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
  `get`, `list`, `watch`, `create` and `patch`; control plane and infrastructure kinds in another group need `get`. With
  `list` and `watch`, the operator reads each of them once instead of in each reconcile. A ClusterRole with the label
  `clusterstack.x-k8s.io/aggregate-to-operator: "true"` [grants them](../how-to/install.md#rights).
- If the admission plugin OwnerReferencesPermissionEnforcement is enabled, kinds of `--provider-kinds` also need
  `delete`, because the operator makes the ClusterStackRelease the owner of its provider object. Without `delete` of the
  ValidatingWebhookConfiguration, that object has no owner: delete it yourself when you uninstall the operator.
- With `--namespace`, grant the rights of watched namespaces by a Role in that namespace; and in all namespaces `list`
  of Clusters, and `get` of ClusterStacks and ClusterStackReleases for classes of other namespaces, as the chart does.
- Discovery (`/api`, `/apis`) and `/readyz` are open to every user in Kubernetes' default roles `system:discovery` and
  `system:public-info-viewer`.
"""

INSTALLER_RIGHTS = """
## Rights of the user who runs csctl install

`csctl install` and `csctl uninstall` use your kubeconfig. Besides all rights of the operator, or `bind` and `escalate`
of its roles, you need:

| resources | verbs | why |
|---|---|---|
| the kinds of the chart | get, list, create, patch, delete | apply and delete the objects |
| `customresourcedefinitions` | get, list, watch, create, patch; delete for `--delete-crds` | apply and await them |
| `namespaces` | get, create; delete for `--delete-namespace` | create the namespace |
| `secrets` in the operator's namespace | get, list, create, patch, delete | the record; the Secret of the webhooks |
| `validatingwebhookconfigurations` | list, delete | delete those of a removed operator |
| `deployments`, `pods` | list | other operators; pods that do not start or stop |
| `subjectaccessreviews` | create | whether a Deployment with the labels of an operator has its rights |
| `clusters` | list, patch | release the upgrades that a removed operator held |

`csctl install --check` names what you lack for an installation. The record is the Secret
`cluster-stack-installation-cluster-stack-operator` in the namespace of the operator. It lists the objects of the
installation and contains no credentials. Its label `clusterstack.x-k8s.io/delivery-record=installation` differs from
that of the records of addons, so no operator takes it for one.
"""

SUPPORT = f"""{NOTE}
# Support

`csctl install --check` compares a management cluster with this table.

| | supported | tested in every run | why |
|---|---|---|---|
| Kubernetes of the management cluster | {{oldest}} to {{newest}} | {{newest}} | match conditions of webhooks and `sleep` in container hooks are on by default from {{oldest}} on |
| Cluster API | versions that serve `{{contract}}` or `{{older}}` of its kinds | {{cluster_api}} (`{{contract}}`), and objects of `{{older}}` | ClusterClasses; the feature gate `{{topology}}` must be enabled |
| Kubernetes of workload clusters | what Cluster API and the releases of a stack support | {{newest}} | the operator uses only stable APIs |
| Helm, for the chart | 3.14 or newer | 3.22 | `--reset-then-reuse-values` |
| architectures of the image | amd64, arm64 | amd64; arm64 is built | |
| Python, for csctl | 3.11 to 3.14 | 3.11; the image has 3.13 | wheels of all dependencies exist (`make resolve`) |

A newer Kubernetes minor version usually works. `csctl install --check` then prints a warning.

## Versions and deprecation

Versions are semantic. Before 1.0, a minor version may change behaviour; the change log lists each change under "Before you upgrade".

| | promise |
|---|---|
| objects of our kinds (`v1alpha1`) | every object that was valid stays valid; fields are added, and not removed or given another meaning within `v1alpha1` |
| formats of releases, delivery records, annotations | a new version reads what older ones wrote; an upgrade of the operator never changes workload clusters |
| flags, values of the chart, metrics, exit codes of csctl | a deprecated one works for at least one minor version, with a warning that names its replacement |
| `-o json` and `-o yaml` of csctl | fields are added, and not removed, renamed or given another meaning within a minor version; the change log names changes |
| names and flags of the Go operator | accepted as long as its objects are supported |
| fixes | for the newest minor version |
"""  # noqa: E501 - rows of tables


LOGS_PREFACE = """\
## Logs

The operator logs to standard error, one line for each decision or problem, also of the webhooks. With
`--log-format json` a line is a JSON object with the fields below; with `text` it has them in another form, for people:

```text
2026-11-23T11:53:25.042+00:00 info clusterstacks.operator.controllers... controller=clusteraddon object=team-a/cluster-addon-one reconcileID=5f3a91c2 the addons of class local-demo-1-35-v1 are delivered
```

Neither contains Secrets. Messages and traces are cut after 6 KiB, control characters are escaped, and the same problem
is not repeated at each retry of a watch or a check. To read the lines about a Cluster, look for `NAMESPACE/CLUSTER` and
`NAMESPACE/cluster-addon-CLUSTER`, the names of the Cluster and its ClusterAddon, in the logs of all replicas.
`--log-level debug` adds what the operator tries without effect on objects.
"""  # noqa: E501 - a line of the log

METRICS_PREFACE = f"""\
The operator serves them at `--metrics-bind-address`, path `/metrics`. Every replica serves them; a replica that is not
the leader does not reconcile, but it watches, so its numbers of objects are those of the leader.

The number of series does not grow with the number of clusters: only
`clusterstacks_object_problem_since_timestamp_seconds` names objects, at most {NAMED_OBJECTS} of each kind. See
[alerts](alerts.md) for the alerts and the dashboard that use them.
"""

ALIASES_PREFACE = """
## Names of controller-runtime

Dashboards of Go operators find these series as well. They are computed from the metrics above. Controllers and kinds
are in the labels `controller`, `name` and `webhook`. controller-runtime's other metrics have no counterpart.
"""

METRICS_0_1_0 = """
    admission_decisions_total api_requests_total build_info drifted_objects_total
    failing_since_timestamp_seconds kubernetes_clusters kubernetes_support_days last_success_timestamp_seconds leader
    longest_running_reconcile_seconds max_concurrent_reconciles not_ready_objects not_ready_since_timestamp_seconds
    object_problem_since_timestamp_seconds object_problems objects_applied_total queue_added_total
    queue_depth queue_oldest_wait_seconds queue_retried_total queue_wait_seconds readiness_check_failing
    reconcile_seconds reconcile_total render_failures_total render_oldest_wait_seconds
    render_queue_depth render_seconds running_reconciles_seconds sources_failing
    sources_oldest_success_timestamp_seconds stalled_objects unreadable_objects unserved_clusters
    upgrade_holds_not_honoured_total webhook_certificate_expiry_timestamp_seconds
    webhook_requests_in_flight webhook_responses_total webhook_seconds workers_busy
"""

METRICS_SINCE = {"0.1.0": METRICS_0_1_0.split()}
"""Metrics by the first version with them, without the prefix ``clusterstacks_``: dashboards depend on the names."""


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {
        "resources.md": "\n".join(_resources()),
        "files.md": "\n".join(_files()),
        "operator.md": "\n".join(_operator()),
        "csctl.md": "\n".join(_csctl()),
        "support.md": SUPPORT.format(**_supported()),
        "rights.md": "\n".join(_rights()),
        "conditions.md": "\n".join(_conditions()),
        "metrics.md": "\n".join(_metrics()),
        "lint-rules.md": "\n".join(_lint_rules()),
    }


def files() -> dict[Path, str]:
    """Every generated file by its path."""
    texts = {PAGES / name: text for name, text in pages().items()}
    texts[MAN_PAGE] = man_page()
    return texts | {SCHEMAS / path: schema_text(schema) for path, schema in all_schemas().items()}


def _supported() -> dict[str, object]:
    """Return the versions that the installer checks."""
    return {
        "oldest": preflight.OLDEST_KUBERNETES,
        "newest": preflight.NEWEST_KUBERNETES,
        "contract": preflight.CONTRACT,
        "older": preflight.OLDER_CONTRACT,
        "cluster_api": preflight.TESTED_CLUSTER_API,
        "topology": preflight.TOPOLOGY,
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


def _files() -> Iterator[str]:
    yield f"{NOTE}\n# Keys of files\n"
    yield "The keys of the files of a stack and its releases, and of facts files (`csctl compat update`)."
    yield "[Formats](formats.md) has examples. `csctl schemas` writes these keys as [JSON schemas for"
    yield "editors](../how-to/use-an-editor.md).\n"
    described = file_schemas() | {"hashes.json": schema(Hashes), "facts file": schema(FactsFile)}
    for file, document in described.items():
        yield f"## {file}\n"
        yield f"{_described(document)} Other keys are {'not valid' if _is_closed(document) else 'ignored'}.\n"
        yield "| key | type | meaning |\n|---|---|---|"
        yield from _keys("[]" if "items" in document else "", document.get("items", document), {})
        yield ""


def _is_closed(schema: dict[str, Any]) -> bool:
    return schema.get("items", schema).get("additionalProperties") is False


def _keys(path: str, schema: dict[str, Any], explained: dict[str, str]) -> Iterator[str]:
    """Yield a row for each key; ``explained`` has the place of each mapping whose keys have rows already."""
    required = schema.get("required", ())
    for name, below in schema.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        inner = below.get("items", below)
        same = explained.setdefault(str(inner.get("properties")), here) if "properties" in inner else here
        must = " (required)" if name in required else ""
        as_there = "" if same == here else f" Keys as those of `{same}`."
        yield f"| `{here}` | {_key_type(below)}{must} | {_described(below).strip() or 'For people.'}{as_there} |"
        if same == here:
            yield from _keys(f"{here}[]" if "items" in below else here, inner, explained)


def _key_type(schema: dict[str, Any]) -> str:
    if "items" in schema:
        return f"list of {_key_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_key_type(schema['additionalProperties'])}"
    types = schema.get("type", "any")
    return types if isinstance(types, str) else " or ".join(kind for kind in types if kind != "null")


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
        text += f" One of {', '.join(f'`{one}`' for one in schema['enum'] if one)}."
    if schema.get("default") not in (None, "", [], {}):
        text += f" Default `{_written(schema['default'])}`."
    # Longer ones say less than the description.
    if len(schema.get("pattern", "")) in range(1, 100):
        text += f" Form `{_cell(schema['pattern'])}`."
    return text


def _written(value: object) -> str:
    """Write a default as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _conditions() -> Iterator[str]:
    yield f"{NOTE}\n# Conditions and reasons\n"
    yield "`csctl explain NAME` prints the same. See also [what Ready, Delivered and Healthy"
    yield "mean](../explanation/health.md) and [find out why](../how-to/find-out-why.md).\n"
    yield "## Conditions\n"
    yield "| condition | of | True means | if it is False |\n|---|---|---|---|"
    for one in CONDITIONS:
        yield f"| `{one.name}` | {', '.join(one.kinds)} | {_plain(one.meaning)} | {_plain(one.remedy)} |"
    yield "\n## Reasons\n"
    yield "Other reasons are codes of errors; their messages name the object, the cause and the remedy.\n"
    yield "| reason | meaning | what to do |\n|---|---|---|"
    yield from (f"| `{one.name}` | {_plain(one.meaning)} | {_plain(one.remedy)} |" for one in REASONS)
    yield ""


def _metrics() -> Iterator[str]:
    yield f"{NOTE}\n# Metrics\n"
    yield METRICS_PREFACE
    registry = Metrics().registry
    yield "| metric | type | labels | unit | since | meaning |\n|---|---|---|---|---|---|"
    others = []
    for collector in registry._collector_to_names:  # noqa: SLF001 - the registry has no public way to list labels
        ours = [metric for metric in collector.collect() if metric.name.startswith("clusterstacks_")]
        others += [metric for metric in collector.collect() if metric.name.startswith("process_")]
        for metric in ours:
            labels = getattr(collector if hasattr(collector, "_labelnames") else metric, "_labelnames")  # noqa: B009
            shown = ", ".join(f"`{label}`" for label in labels)
            name = _exposed(metric)
            about = f"{_unit(name)} | {_since(name)} | {_plain(metric.documentation)}"
            yield f"| `{name}` | {metric.type} | {shown} | {about} |"
    yield "\nA histogram has the series `_bucket`, `_sum` and `_count`."
    yield "\n## Metrics of the process\n"
    yield "| metric | type | unit | meaning |\n|---|---|---|---|"
    yield from (
        f"| `{_exposed(one)}` | {one.type} | {_unit(one.name)} | {_plain(one.documentation)} |" for one in others
    )
    yield ALIASES_PREFACE
    yield "| metric | computed from |\n|---|---|"
    suffixes = {metric.name: "_total" if metric.type == "counter" else "" for metric in registry.collect()}
    yield from (f"| `{one.name}{suffixes[one.source]}` | `{one.source}{suffixes[one.source]}` |" for one in ALIASES)
    yield ""


def _exposed(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _unit(name: str) -> str:
    units = {"_timestamp_seconds": "Unix time", "_time_seconds": "Unix time", "_seconds": "seconds", "_bytes": "bytes"}
    base = name.removesuffix("_total")
    return next((unit for suffix, unit in units.items() if base.endswith(suffix)), "")


def _since(name: str) -> str:
    """Return the first version with a metric; a new or renamed one must be listed."""
    (since,) = [version for version, names in METRICS_SINCE.items() if name.removeprefix("clusterstacks_") in names]
    return since


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
    yield LOGS_PREFACE
    yield "| field | meaning |\n|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in FIELDS.items())
    yield ""


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
    yield INSTALLER_RIGHTS
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
        ("ClusterRole", "", (RightScope.CLUSTER, RightScope.WATCHED)),
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
    context = click.Context(command, info_name=path, **csctl.context_settings)
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
    for file, text in files().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
