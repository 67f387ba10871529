"""Configuration of kwok, which plays the kubelets of workload clusters: the stages of their Nodes and Pods.

A Pod becomes ready, and a Pod of a Job completes, unless the annotation ``POD_FAILS`` makes it fail.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from clusterstacks.dev.provider.kinds import GROUP

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

KUBELET_VERSION: Final = f"{GROUP}/kubelet-version"
"""Annotation of a Node with the version that it reports."""
POD_FAILS: Final = f"{GROUP}/pod-fails"
"""Annotation of a Pod with the way in which it fails: ``CrashLoopBackOff``, ``ImagePullBackOff`` or ``NotReady``."""

RESTARTS: Final = 7
"""Restarts of a container in a crash loop: more than the default limit of a Job, which is 6, so the Job fails."""


def configuration() -> str:
    """Return kwok's configuration file."""
    options = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": _OPTIONS}
    return "\n---\n".join(json.dumps(document) for document in (options, *stages()))


_OPTIONS: Final = {
    "manageAllNodes": True,
    "cidr": "10.244.0.0/16",
    "nodeIP": "192.0.2.1",  # reserved for documentation: nothing listens there
    # Without Leases: after a restart kwok would wait 40 s for the Lease of its predecessor.
    "nodeLeaseDurationSeconds": 0,
    # kwok's own default, which a file without the fields sets to 0
    **dict.fromkeys(("nodePlayStageParallelism", "podPlayStageParallelism", "podsOnNodeSyncParallelism"), 4),
}
_HEARTBEAT_SECONDS: Final = 20
"""kube-controller-manager marks a node as unreachable after 50 s without a heartbeat."""


def node(name: str, kubelet_version: str, provider_id: str = "") -> Manifest:
    """Return a Node for kwok, with the labels of a kubelet, by which charts select nodes."""
    metadata = {
        "name": name,
        "annotations": {KUBELET_VERSION: kubelet_version},
        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
    }
    spec = {"spec": {"providerID": provider_id}} if provider_id else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, **spec}


def stages() -> list[Manifest]:
    """Return the stages; at most one of them applies to an object at a time."""
    crashes, pulls, unready = ((_FAILS, "In", way) for way in ("CrashLoopBackOff", "ImagePullBackOff", "NotReady"))
    return [
        _stage("node-ready", "Node", [(_NODE_CURRENT, "In", "false")], _NODE),
        _stage("node-heartbeat", "Node", [(_NODE_CURRENT, "In", "true")], _NODE, after_seconds=_HEARTBEAT_SECONDS),
        _stage("pod-ready", "Pod", [*_LIVE, (_FAILS, "DoesNotExist"), (_READY, "NotIn", "True")], _RUNNING),
        _stage(
            "pod-complete",
            "Pod",
            [*_LIVE, (_FAILS, "DoesNotExist"), (_READY, "In", "True"), (_OWNER, "In", "Job")],
            _terminated(0, "Completed", "Succeeded"),
        ),
        _stage(
            "pod-failed",
            "Pod",
            [*_LIVE, crashes, (".spec.restartPolicy", "In", "Never")],
            _terminated(1, "Error", "Failed"),
        ),
        _stage(
            "pod-crash-loop",
            "Pod",
            [*_LIVE, crashes, (".spec.restartPolicy", "NotIn", "Never"), (_WAITING, "NotIn", "CrashLoopBackOff")],
            _CRASHING,
            event=("BackOff", "Back-off restarting failed container"),
        ),
        _stage(
            "pod-image-pull",
            "Pod",
            [*_LIVE, pulls, (_WAITING, "NotIn", "ImagePullBackOff")],
            _PULLING,
            event=("Failed", "Error: ImagePullBackOff"),
        ),
        _stage(
            "pod-not-ready",
            "Pod",
            [*_LIVE, unready, (_RUNS_UNREADY, "In", "false")],
            _RUNNING_UNREADY,
            event=("Unhealthy", "Readiness probe failed"),
        ),
        _stage("pod-delete", "Pod", [(_DELETED, "Exists")]),
    ]


_FAILS: Final = f'.metadata.annotations["{POD_FAILS}"]'
_DELETED: Final = ".metadata.deletionTimestamp"
_LIVE: Final = ((_DELETED, "DoesNotExist"), (".status.phase", "In", "Pending", "Running"))
_READY: Final = '.status.conditions[]? | select(.type == "Ready") | .status'
_OWNER: Final = ".metadata.ownerReferences[]?.kind"
_WAITING: Final = ".status.containerStatuses[]?.state.waiting.reason"
_RUNS_UNREADY: Final = "any(.status.containerStatuses[]?; .state.running != null and (.ready | not))"
_NODE_CURRENT: Final = (
    f'.status.nodeInfo.kubeletVersion == .metadata.annotations["{KUBELET_VERSION}"] '
    'and any(.status.conditions[]?; .type == "Ready" and .status == "True")'
)


def _stage(
    name: str,
    kind: str,
    expressions: list[tuple[str, ...]],
    status: str = "",
    *,
    event: tuple[str, str] | None = None,
    after_seconds: int = 0,
) -> Manifest:
    """Return a stage that writes the status; without one it deletes the object."""
    following: Manifest = {"statusTemplate": status} if status else {"delete": True}
    if event:
        following["event"] = {"type": "Warning", "reason": event[0], "message": event[1]}
    matching = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key, operator, *values in expressions
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": matching},
            "delay": {"durationMilliseconds": after_seconds * 1000},
            "next": following,
        },
    }


def _conditions(status: str, ready: str, reason: str = "") -> str:
    """Return the template of a Pod status with these conditions; ``status`` is the remainder."""
    values = {"Initialized": ("True", ""), "ContainersReady": (ready, reason), "Ready": (ready, reason)}
    lines = [
        f'- {{type: {kind}, status: "{value}", reason: "{why}", lastTransitionTime: {{{{ Now | Quote }}}}}}'
        for kind, (value, why) in values.items()
    ]
    return "\n".join(("conditions:", *lines, "startTime: {{ Now | Quote }}", status))


def _containers(ready: str, state: str, restarts: int = 0) -> str:
    return f"""containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: {ready}
  started: {ready}
  restartCount: {restarts}
  {state}
{{{{ end }}}}
"""


def _terminated(code: int, reason: str, phase: str) -> str:
    ended = (
        f"{{exitCode: {code}, reason: {reason}, startedAt: {{{{ Now | Quote }}}}, finishedAt: {{{{ Now | Quote }}}}}}"
    )
    why = "PodCompleted" if code == 0 else "PodFailed"
    return _conditions(f"phase: {phase}\n" + _containers("false", f"state: {{terminated: {ended}}}"), "False", why)


_UNREADY: Final = ("False", "ContainersNotReady")
_ADDRESS: Final = """phase: Running
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
{{ $host := or .spec.hostNetwork false }}
{{ $ip := or .status.podIP (PodIPWith .spec.nodeName $host .metadata.uid .metadata.name .metadata.namespace) }}
podIP: {{ $ip | Quote }}
podIPs: [{ip: {{ $ip | Quote }}}]
"""
_STARTED: Final = "state: {running: {startedAt: {{ Now | Quote }}}}"
_RUNNING: Final = _conditions(_ADDRESS + _containers("true", _STARTED), "True")
_RUNNING_UNREADY: Final = _conditions(_ADDRESS + _containers("false", _STARTED), *_UNREADY)
_CRASHING: Final = _conditions(
    _ADDRESS
    + _containers(
        "false",
        """state: {waiting: {reason: CrashLoopBackOff, message: "back-off 5m0s restarting failed container"}}
  lastState: {terminated: {exitCode: 1, reason: Error}}""",
        RESTARTS,
    ),
    *_UNREADY,
)
_PULLING: Final = _conditions(
    "phase: Pending\n"
    + _containers(
        "false",
        """state:
    waiting:
      reason: ImagePullBackOff
      message: {{ printf "Back-off pulling image %q" .image | Quote }}""",
    ),
    *_UNREADY,
)
_NODE: Final = f"""{{{{ $version := index .metadata.annotations "{KUBELET_VERSION}" }}}}
conditions:
{{{{ range NodeConditions }}}}
- type: {{{{ .type | Quote }}}}
  status: {{{{ .status | Quote }}}}
  reason: {{{{ .reason | Quote }}}}
  message: {{{{ .message | Quote }}}}
  lastHeartbeatTime: {{{{ Now | Quote }}}}
  lastTransitionTime: {{{{ $.metadata.creationTimestamp | Quote }}}}
{{{{ end }}}}
addresses:
- {{type: InternalIP, address: {{{{ NodeIP | Quote }}}}}}
- {{type: Hostname, address: {{{{ .metadata.name | Quote }}}}}}
capacity: {{cpu: "8", memory: 16Gi, pods: "110"}}
allocatable: {{cpu: "8", memory: 16Gi, pods: "110"}}
nodeInfo:
  architecture: amd64
  bootID: ""
  containerRuntimeVersion: kwok://{{{{ Version }}}}
  kernelVersion: ""
  kubeProxyVersion: ""
  kubeletVersion: {{{{ $version | Quote }}}}
  machineID: ""
  operatingSystem: linux
  osImage: kwok
  systemUUID: ""
"""
