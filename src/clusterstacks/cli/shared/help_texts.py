"""Help texts: examples for each verb, and suggestions for verbs that csctl does not have."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

_STACK: Final = "providers/openstack/scs/1-35"
_RELEASE: Final = "openstack-scs-1-35-v1"
_REF: Final = f"registry.example.org/kaas/stacks:{_RELEASE}"

EXAMPLES: Final = {
    "completion": ("bash",),
    "copy": (f"{_REF} mirror.example.net/stacks", f"{_REF} mirror.example.net/stacks --images images.txt"),
    "create": (
        f"{_STACK} --remote none",
        f"{_STACK} --remote oci --publish",
        f"{_STACK} --mode hash -o json",
    ),
    "diff": (f".release/{_RELEASE} {_STACK}",),
    "hash": (_STACK,),
    "help": ("create", "dev up"),
    "index": ("www",),
    "init": ("openstack/scs/1-35",),
    "lint": (".", f"{_STACK} --against management.kubeconfig", ". -o sarif"),
    "list": ("registry.example.org/kaas/stacks", "github://example-org/cluster-stacks -o json"),
    "plan": ("default/my-cluster --to v1.36.1",),
    "pull": (_REF, f"{_REF} -d releases"),
    "push": (f".release/{_RELEASE} registry.example.org/kaas/stacks",),
    "sign": ("--new-key release.key", f".release/{_RELEASE} --key release.key"),
    "template": (f"{_STACK} --class", f"{_STACK} --addon cni --values", f".release/{_RELEASE} --images"),
    "verify": (f"{_REF} --key release.key.pub",),
    "version": ("", "-o json"),
    "why": ("default/my-cluster v1.36.1",),
}
"""Arguments of each verb."""


_LOGIN: Final = (
    "csctl uses the logins of 'docker login', 'podman login', 'helm registry login' and 'oras login', or OCI_REGISTRY "
    "with OCI_USERNAME and OCI_PASSWORD"
)
_OBJECTS: Final = (
    "use 'kubectl get clusterstacks,clusterstackreleases,clusteraddons -A', or 'csctl dev status' for the local "
    "environment"
)
_LOGS: Final = "use 'kubectl logs' of the operator's pod, or 'csctl dev logs' for the local environment"
_EVENTS: Final = "use 'kubectl events --for clusteraddon/NAME' or 'kubectl describe'"
_INSTALL: Final = "install the operator with kubectl or Helm; 'csctl crds' prints its CustomResourceDefinitions"
_PAUSE: Final = "set spec.paused of the Cluster with kubectl"

SUGGESTIONS: Final = {
    **dict.fromkeys(("login", "logout", "auth"), _LOGIN),
    **dict.fromkeys(("get", "status", "tree", "describe", "watch", "ps", "top"), _OBJECTS),
    **dict.fromkeys(("logs", "log"), _LOGS),
    "events": _EVENTS,
    **dict.fromkeys(("validate", "check", "doctor", "test", "vet"), "'csctl lint' reports problems of a stack"),
    **dict.fromkeys(("build", "package", "pack", "make"), "'csctl create' builds releases"),
    **dict.fromkeys(("publish", "upload", "deploy"), "'csctl push' publishes a release in a registry"),
    **dict.fromkeys(("download", "fetch", "get-release"), "'csctl pull' downloads a release"),
    **dict.fromkeys(
        ("export", "save", "backup"), "'csctl pull' writes a release to a directory, 'csctl copy' mirrors it"
    ),
    **dict.fromkeys(("mirror", "promote", "sync"), "'csctl copy' copies a release to another repository"),
    **dict.fromkeys(
        ("render", "show", "inspect"), "'csctl template' prints the rendered objects of a stack or release"
    ),
    **dict.fromkeys(("new", "scaffold", "generate", "start"), "'csctl init' writes a new stack"),
    **dict.fromkeys(("upgrade", "rollback"), "'csctl plan' prints the steps of an upgrade"),
    **dict.fromkeys(("explain", "reason"), "'csctl why' explains a refusal"),
    **dict.fromkeys(("search", "ls", "releases", "tags"), "'csctl list' lists releases"),
    **dict.fromkeys(("matrix", "compatibility", "facts"), "'csctl compat' shows which versions work together"),
    **dict.fromkeys(("install", "uninstall", "apply", "delete"), _INSTALL),
    "reconcile": "annotate the object with kubectl; the how-to 'Find out why' names the annotation",
    **dict.fromkeys(("suspend", "resume", "pause"), _PAUSE),
    **dict.fromkeys(("up", "down", "env", "cluster", "kind"), "'csctl dev' runs Cluster API and the operator locally"),
    **dict.fromkeys(("digest", "checksum"), "'csctl hash' prints the hashes of a stack"),
}
"""Suggestions for verbs of helm, flux, kubectl, clusterctl, docker and oras."""


def suggestion(typed: str, verbs: Collection[str]) -> str:
    """Return a suggestion for a verb that does not exist."""
    if meant := SUGGESTIONS.get(typed.lower()):
        return meant
    close = get_close_matches(typed, verbs)
    return f"did you mean {' or '.join(close)}?" if close else "'csctl help' lists the verbs"
