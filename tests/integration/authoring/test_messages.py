"""USER-10: lint reports mistakes with file, line, cause and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from clusterstacks.csctl.authoring.linter import Linter
from tests.support.builders.tiny_stack import CLASS, DEPLOYMENT, SETTINGS, STAGES, tiny

if TYPE_CHECKING:
    from clusterstacks.deliver.render.renderer import Renderer

pytestmark = pytest.mark.regression("USER-10")

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLASS_FILE = "cluster-class/templates/class.yaml"
CONFIG = "cluster-addon/net/templates/config.yaml"
VALUES = "cluster-addon/net/values.yaml"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n"
ALIGN = "align this line with the others of its mapping or list, with spaces"
STAGED = "clusteraddon.yaml"


class Case(NamedTuple):
    mistake: int
    """Its number in the list of mistakes that authors make."""
    place: str
    rule: str
    message: str
    remedy: str
    changes: dict[str, str | None]


CASES = (
    Case(
        1,
        f"{STAGED}:5",
        "stages",
        "did not find expected '-' indicator",
        ALIGN,
        {STAGED: STAGES.replace("      action: apply", "     action: apply")},
    ),
    Case(
        2,
        f"{CLASS_FILE}:6",
        "chart-renders",
        "the cluster class does not render: test-tiny-1-35-cluster-class/templates/class.yaml (rendered), line 5: "
        "did not find expected key",
        f"{ALIGN}; line 5 is a line of the rendered text",
        {CLASS_FILE: CLASS.replace("spec:", "{{- if true }}\nspec:").replace("\nspec:", "\n spec:") + "{{- end }}\n"},
    ),
    Case(
        3,
        "csctl.yaml:3",
        "settings",
        "found a tab character that violates indentation",
        "indent with spaces instead of tabs",
        {"csctl.yaml": SETTINGS.replace("  clusterStackName", "\tclusterStackName")},
    ),
    Case(
        5,
        f"{CONFIG}:6",
        "chart-renders",
        "addon net does not render: net/templates/config.yaml:6:18 {{ .Values.zone.name }}: .Values.zone has no value",
        "set it in values.yaml, or wrap this in {{ if .Values.zone }}",
        {CONFIG: f"{MAP}  zone: {{{{ .Values.zone.name }}}}\n"},
    ),
    Case(
        6,
        f"{CONFIG}:6",
        "value-unset",
        "{{ .Values.zone }} prints nothing: values.yaml does not set it",
        "set zone in values.yaml, wrap this in {{ if }}, or write {{ .Values.zone | default ... }}",
        {CONFIG: f"{MAP}  zone: {{{{ .Values.zone | quote }}}}\n"},
    ),
    Case(
        9,
        f"{STAGED}:9",
        "condition",
        "condition 'agent.status.readyReplicas = 0': 1:28: Syntax error: token recognition error at: '= '",
        "write == to compare",
        {STAGED: STAGES.replace("> 0", "= 0")},
    ),
    Case(
        10,
        f"{STAGED}:9",
        "condition",
        "condition 'agnt.status.readyReplicas > 0': 1:12: undeclared reference to 'agnt.status.readyReplicas'",
        "write agent.status.readyReplicas, because the keys of its objects are 'agent'",
        {STAGED: STAGES.replace("conditions: agent.", "conditions: agnt.")},
    ),
    Case(
        11,
        f"{STAGED}:6",
        "unknown-key",
        "addonStages.AfterControlPlaneInitialized[0] has the unknown key 'waitForPostCondtion', which has no effect",
        "did you mean waitForPostCondition? known keys are action, name, rollback, timeout, waitFor, "
        "waitForPostCondition, waitForPreCondition",
        {STAGED: STAGES.replace("waitForPostCondition", "waitForPostCondtion")},
    ),
    Case(
        12,
        f"{STAGED}:3",
        "unknown-hook",
        "AfterControlPlaneInitialised is not a hook, so its stages never run",
        "did you mean AfterControlPlaneInitialized? known are AfterControlPlaneInitialized, BeforeClusterUpgrade, "
        "AfterControlPlaneUpgrade, AfterWorkersUpgrade, AfterClusterUpgrade",
        {STAGED: STAGES.replace("Initialized", "Initialised")},
    ),
    Case(
        5,
        f"{CONFIG}:6",
        "chart-renders",
        'addon net does not render: parse error at (net/templates/config.yaml:6): function "quoted" not defined',
        "correct the name: neither Go templates nor Helm have this function",
        {CONFIG: f"{MAP}  zone: {{{{ .Values.zone | quoted }}}}\n"},
    ),
)


@pytest.mark.regression("USER-10")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.mistake} {case.rule}")
async def test_mistake_is_reported_with_place_cause_and_remedy(renderer: Renderer, case: Case) -> None:
    (finding,) = (await Linter(renderer).lint(tiny(case.changes), "1-35")).findings

    problem = finding.problem
    assert (f"{problem.path}:{problem.line}", finding.rule) == (case.place, case.rule)
    assert (problem.message, problem.remedy) == (case.message, case.remedy)


@pytest.mark.regression("USER-5")
@pytest.mark.parametrize(
    "line",
    [
        "a: {{ .Values.zone | default 1 }}",
        "a: {{ if .Values.zone }}{{ .Values.zone }}{{ end }}",
        "a: {{ with .Values.zone }}{{ . }}{{ end }}",
        "a: {{ if .Values.zone }}{{ if true }}{{ $.Values.zone.name }}{{ end }}{{ end }}",
        "a: {{ .Values.set | quote }}",
        "a: {{ .Values.nothing | quote }}",
        "a: {{ .Values.deep.below }}",
        "a: {{ .Values.cluster }}",
        'a: {{ empty .Values.zone }}-{{ hasKey .Values "zone" }}',
        "a: {{ .Values.global }}",
    ],
)
async def test_existing_or_optional_value_is_not_reported_as_missing(renderer: Renderer, line: str) -> None:
    changes: dict[str, str | None] = {
        CONFIG: f"{MAP}  {line}\n",
        VALUES: "set: 1\nnothing:\ndeep: {below: 2}\n",
        "cluster-addon/net/templates/deployment.yaml": DEPLOYMENT,
    }

    assert (await Linter(renderer).lint(tiny(changes), "1-35")).findings == ()
