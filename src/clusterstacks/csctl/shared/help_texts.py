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
    "compat": (
        f"check {_REF}",
        "check default/my-cluster --kubernetes v1.36.1",
        f"infer {_STACK}",
        f"matrix {_STACK}",
        "show cilium",
        "update cilium.yaml",
    ),
    "copy": (
        f"{_REF} mirror.example.net/stacks --images images.txt",
        "'registry.example.org/kaas/stacks:openstack-scs-1-3*' mirror.example.net/stacks",
        "--all registry.example.org/kaas/stacks oci-layout:carried",
        "--all oci-layout:carried mirror.example.net/stacks -o json",
    ),
    "create": (
        f"{_STACK} --remote none",
        f"{_STACK} --remote oci --publish",
        f"{_STACK} --mode hash -o json",
    ),
    "crds": ("", "| kubectl apply --server-side --force-conflicts -f -"),
    "demo": ("", "--ranges", "--upgrade --keep"),
    "dev": (
        "binaries --with workloads",
        "up --release-dir releases --detach",
        "status",
        "kubectl get clusters",
        "kubectl --cluster default/my-cluster get nodes",
        "kubeconfig",
        "logs operator --follow",
        "restart operator --fresh-cache",
        "down",
    ),
    "diff": (f".release/{_RELEASE} {_STACK}", f"{_REF} .release/{_RELEASE}"),
    "drift": ("default/my-cluster", "default/my-cluster --exit-code -o json"),
    "explain": ("InSync", "HealthTimeout"),
    "hash": (_STACK,),
    "help": ("create", "dev up"),
    "history": ("default/my-cluster", "default/my-cluster -o json"),
    "index": ("www",),
    "init": ("openstack/scs/1-35",),
    "install": (
        "--check",
        "--image registry.example.org/kaas/cluster-stack-operator --values values.yaml --wait",
        "--image registry.example.org/kaas/cluster-stack-operator --export",
    ),
    "lint": (".", f"{_STACK} --against management.kubeconfig", _REF, ". -o sarif"),
    "list": ("registry.example.org/kaas/stacks", "github://example-org/cluster-stacks -o json"),
    "login": ("registry.example.org", "registry.example.org -u robot --password-stdin < token"),
    "logout": ("registry.example.org",),
    "plan": ("default/my-cluster --to v1.36.1",),
    "pull": (_REF, f"{_REF} -d releases"),
    "push": (f".release/{_RELEASE} registry.example.org/kaas/stacks",),
    "reconcile": ("default/my-cluster", "default/my-cluster --no-wait"),
    "resume": ("default/my-cluster",),
    "schemas": (".schemas",),
    "sign": ("--new-key release.key", f".release/{_RELEASE} --key release.key"),
    "status": (
        "",
        "-l stage=prod --troubled",
        "-n team-a -o json",
        "default/my-cluster",
        "default/my-cluster --watch",
        "--context eu-1 --context eu-2",
    ),
    "suspend": ("default/my-cluster",),
    "template": (f"{_STACK} --class", f"{_STACK} --addon cni --values", f"{_REF} --images"),
    "ui": ("-A", "-n team-a --port 8001 --no-open"),
    "uninstall": ("--dry-run", "--namespace cluster-stack-system"),
    "verify": (f"{_REF} --key release.key.pub",),
    "version": ("", "--client", "-o json"),
    "why": ("default/my-cluster v1.36.1",),
}
"""Arguments of each verb; those of a verb with commands begin with one of them."""


_OBJECTS: Final = "'csctl status' lists Clusters with their releases, 'csctl status NAMESPACE/CLUSTER' describes one"
_LOGS: Final = "'kubectl logs' prints the log of the operator: the field object of its lines names the Cluster"
_INSTALL: Final = "'csctl install' installs the operator, 'csctl uninstall' removes it"

SUGGESTIONS: Final = {
    "auth": "'csctl login' logs in to a registry; logins of docker, podman, helm and oras are used as well",
    **dict.fromkeys(("tree", "describe", "watch", "ps", "top"), _OBJECTS),
    "fleet": _OBJECTS,
    "get": "'kubectl get clusters,clusterstacks,clusterstackreleases,clusteraddons' lists objects; " + _OBJECTS,
    **dict.fromkeys(
        ("event", "events"), "'csctl status NAMESPACE/CLUSTER' prints the newest events, 'kubectl events' lists all"
    ),
    **dict.fromkeys(("log", "logs"), _LOGS),
    **dict.fromkeys(("validate", "check", "doctor", "test", "vet"), "'csctl lint' reports problems of a stack"),
    **dict.fromkeys(("build", "package", "pack", "make"), "'csctl create' builds releases"),
    **dict.fromkeys(("publish", "upload", "deploy"), "'csctl push' publishes a release in a registry"),
    **dict.fromkeys(("download", "fetch", "get-release"), "'csctl pull' downloads a release"),
    **dict.fromkeys(
        ("export", "save", "backup", "bundle"),
        "'csctl pull' writes a release to a directory, 'csctl copy' releases with their signatures to an image layout",
    ),
    **dict.fromkeys(("mirror", "promote", "sync"), "'csctl copy' copies a release to another repository"),
    **dict.fromkeys(
        ("render", "show", "inspect"), "'csctl template' prints the rendered objects of a stack or release"
    ),
    **dict.fromkeys(("new", "scaffold", "generate", "start"), "'csctl init' writes a new stack"),
    **dict.fromkeys(("upgrade", "rollback"), "'csctl plan' prints the steps of an upgrade"),
    "reason": "'csctl explain' explains a reason in a status, 'csctl why' a refusal",
    **dict.fromkeys(("search", "ls", "releases", "tags"), "'csctl list' lists releases"),
    **dict.fromkeys(("matrix", "compatibility", "facts"), "'csctl compat' shows which versions work together"),
    **dict.fromkeys(("apply", "delete", "remove", "setup"), _INSTALL),
    **dict.fromkeys(("dashboard", "web", "open"), "'csctl ui' shows clusters and releases in a browser"),
    "pause": "'csctl suspend' pauses the delivery of the addons of a Cluster",
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
