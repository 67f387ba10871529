"""``csctl create``, ``template`` and ``lint`` of a stack with five addon charts, against the helm command line.

Both sides package the same six charts (the class's is the sixth) and render them. Helm is one process for all packages
and one for each chart rendered, which is what its command line offers. ``CLUSTERSTACKS_HELM`` names the binary, else
``helm`` is taken from PATH; without one only csctl is measured.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.processes import interleaved, ratio
from benchmarks.report import Figure, show

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = 11
CHARTS = 5
OBJECTS = 10
VERSION_TAG = "<< .ClusterClassVersion >>"

CSCTL = """\
config:
  kubernetesVersion: v1.35.4
  clusterStackName: five
  provider: {type: bench}
"""
STAGES = "apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1\naddonStages:\n  AfterControlPlaneInitialized:\n"
CLASS = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: "{{ .Release.Name }}-{{ .Chart.Version }}"}
spec:
  infrastructure:
    templateRef:
      apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
      kind: BenchClusterTemplate
      name: "{{ .Release.Name }}-{{ .Chart.Version }}"
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: BenchClusterTemplate
metadata: {name: "{{ .Release.Name }}-{{ .Chart.Version }}"}
spec: {template: {spec: {}}}
"""
NAMES = """\
{{- define "labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/version: {{ .Chart.Version | quote }}
{{- end }}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %(name)s
  namespace: {{ .Release.Namespace }}
  labels: {{- include "labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {{- include "labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "labels" . | nindent 8 }}
    spec:
      containers:
        - name: main
          image: "{{ .Values.image.repository }}@{{ .Values.image.digest }}"
          {{- with .Values.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
"""
VALUES = f"""\
replicas: 1
image: {{repository: registry.example/app, digest: "sha256:{"0" * 64}"}}
resources:
  requests: {{cpu: 100m, memory: 64Mi}}
"""


def write_stack(root: Path) -> Path:
    """Write the source of a stack with five charts."""
    names = [f"addon{number}" for number in range(CHARTS)]
    stages = "".join(f"    - {{name: {name}, action: apply}}\n" for name in names)
    files = {
        "csctl.yaml": CSCTL,
        "clusteraddon.yaml": STAGES + stages,
        "cluster-class/Chart.yaml": _chart("bench-five-1-35-cluster-class", VERSION_TAG),
        "cluster-class/templates/class.yaml": CLASS,
    }
    for name in names:
        files[f"cluster-addon/{name}/Chart.yaml"] = _chart(name, "1.0.0")
        files[f"cluster-addon/{name}/values.yaml"] = VALUES
        files[f"cluster-addon/{name}/templates/_names.tpl"] = NAMES
        for number in range(OBJECTS):
            template = DEPLOYMENT % {"name": f"{name}-{number}"}
            files[f"cluster-addon/{name}/templates/object{number}.yaml"] = template
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def _chart(name: str, version: str) -> str:
    return f"apiVersion: v2\nname: {name}\nversion: {version}\n"


def helm_commands(helm: str, stack: Path, into: Path) -> dict[str, str]:
    """Return what helm does for the same stack; the version it cannot read is filled in."""
    source = into / "helm"
    shutil.copytree(stack, source)
    chart = source / "cluster-class/Chart.yaml"
    chart.write_text(chart.read_text().replace(VERSION_TAG, "1.0.0"))
    charts = [chart.parent, *sorted((source / "cluster-addon").iterdir())]
    package = shlex.join([helm, "package", "--destination", str(into / "packages"), *map(str, charts)])
    template = "".join(f"{shlex.join([helm, 'template', 'x', str(one)])}; " for one in charts)
    lint = shlex.join([helm, "lint", *map(str, charts)])
    return {
        "helm package": package,
        "helm template": template,
        "helm package, helm template": f"{package}; {template}",
        "helm lint, helm template": f"{lint}; {template}",
    }


def csctl_commands(stack: Path, into: Path) -> dict[str, str]:
    csctl, source = str(Path(sys.executable).with_name("csctl")), str(stack)
    create = shlex.join([csctl, "create", source, "--mode=hash", "--remote=none", "-o", str(into / "releases")])
    template = shlex.join([csctl, "template", source])
    return {
        "csctl create": create,
        "csctl template": template,
        "csctl create, csctl template": f"{create}; {template}",
        "csctl lint": shlex.join([csctl, "lint", source]),
    }


PAIRS = (
    ("csctl create", "helm package"),
    ("csctl template", "helm template"),
    ("csctl create, csctl template", "helm package, helm template"),
    ("csctl lint", "helm lint, helm template"),
)


def measure(root: Path, helm: str | None) -> list[Figure]:
    stack = write_stack(root / "stack")
    texts = csctl_commands(stack, root)
    if helm is not None:
        texts |= helm_commands(helm, stack, root)
    commands: dict[str, Sequence[str]] = {name: ["sh", "-ec", text] for name, text in texts.items()}
    spent = interleaved(commands, RUNS)
    figures: list[Figure] = []
    for name, found in spent.items():
        figures.append(Figure(f"{name}: time", [one.seconds for one in found], "s"))
        figures.append(Figure(f"{name}: CPU", [one.cpu for one in found], "s"))
    for ours, theirs in PAIRS if helm is not None else ():
        figures.append(ratio(f"{ours} against {theirs}: time", spent[ours], spent[theirs]))
        figures.append(ratio(f"{ours} against {theirs}: CPU", spent[ours], spent[theirs], "cpu"))
    return figures


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        helm = os.environ.get("CLUSTERSTACKS_HELM") or shutil.which("helm")
        show(f"A stack with {CHARTS} charts of {OBJECTS} objects", measure(Path(directory), helm))


if __name__ == "__main__":
    main()
