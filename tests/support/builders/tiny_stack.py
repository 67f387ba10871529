"""The source of a minimal stack without lint findings, and changes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

IMAGE = f"registry.example/tiny@sha256:{'0' * 64}"

CLASS = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata:
  name: {{ .Release.Name }}-{{ .Chart.Version }}
spec:
  infrastructure:
    templateRef:
      apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
      kind: TinyClusterTemplate
      name: {{ .Release.Name }}-{{ .Chart.Version }}
  variables:
    - name: size
      required: false
      schema:
        openAPIV3Schema: {type: string, default: small}
  patches:
    - name: size
      definitions:
        - selector:
            apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
            kind: TinyClusterTemplate
            matchResources: {infrastructureCluster: true}
          jsonPatches:
            - {op: add, path: /spec/template/spec/size, valueFrom: {variable: size}}
"""

TEMPLATE = """\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: TinyClusterTemplate
metadata:
  name: {{ .Release.Name }}-{{ .Chart.Version }}
spec:
  template:
    spec: {flavour: plain}
"""

STAGES = """\
apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1
addonStages:
  AfterControlPlaneInitialized:
    - name: net
      action: apply
      waitForPostCondition:
        objects:
          - {key: agent, apiVersion: apps/v1, kind: Deployment, name: net, namespace: kube-system}
        conditions: agent.status.readyReplicas > 0
"""

DEPLOYMENT = f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: net
spec:
  selector:
    matchLabels: {{app: net}}
  template:
    metadata:
      labels: {{app: net}}
    spec:
      containers:
        - name: net
          image: {IMAGE}
          args: [--cluster={{{{ .Values.cluster }}}}]
"""

SETTINGS = """\
config:
  kubernetesVersion: v1.35.4
  clusterStackName: tiny
  provider:
    type: test
"""

CHART = """\
apiVersion: v2
name: test-tiny-1-35-cluster-class
version: << .ClusterClassVersion >>
"""

TINY: dict[str, str] = {
    "csctl.yaml": SETTINGS,
    "clusteraddon.yaml": STAGES,
    "cluster-class/Chart.yaml": CHART,
    "cluster-class/templates/class.yaml": CLASS,
    "cluster-class/templates/template.yaml": TEMPLATE,
    "cluster-addon/net/Chart.yaml": "apiVersion: v2\nname: net\nversion: 1.0.0\n",
    "cluster-addon/net/overwrite.yaml": "values: |\n  cluster: {{ .Cluster.metadata.name }}\n",
    "cluster-addon/net/templates/deployment.yaml": DEPLOYMENT,
}


def tiny(changes: Mapping[str, str | None] | None = None) -> dict[str, bytes]:
    """Return the files of the stack with changes; None removes a file."""
    texts = {path: text for path, text in {**TINY, **(changes or {})}.items() if text is not None}
    return {path: text.encode() for path, text in texts.items()}


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a directory, which is created."""
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return root
