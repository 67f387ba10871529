"""The verb, or the other program, that people mean who type a verb which csctl does not have."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

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

MEANT: Final = {
    **dict.fromkeys(("login", "logout", "auth"), _LOGIN),
    **dict.fromkeys(("get", "status", "tree", "describe", "watch", "ps", "top"), _OBJECTS),
    **dict.fromkeys(("logs", "log"), _LOGS),
    "events": _EVENTS,
    **dict.fromkeys(("validate", "check", "doctor", "test", "vet"), "'csctl lint' reports problems of a stack"),
    **dict.fromkeys(("build", "package", "pack", "make"), "'csctl create' builds releases"),
    **dict.fromkeys(("publish", "upload", "deploy"), "'csctl push' publishes a release in a registry"),
    **dict.fromkeys(("download", "fetch", "get-release"), "'csctl pull' fetches a release"),
    **dict.fromkeys(
        ("export", "save", "backup"), "'csctl pull' writes a release to a directory, 'csctl copy' mirrors it"
    ),
    **dict.fromkeys(("mirror", "promote", "sync"), "'csctl copy' copies a release to another repository"),
    **dict.fromkeys(("render", "show", "inspect"), "'csctl template' prints what a stack or release renders to"),
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
"""What to do instead, by what helm, flux, kubectl, clusterctl, docker and oras call it."""


def suggestion(typed: str, verbs: Collection[str]) -> str:
    """Say what to type instead of a verb that does not exist."""
    if meant := MEANT.get(typed.lower()):
        return meant
    close = get_close_matches(typed, verbs)
    return f"did you mean {' or '.join(close)}?" if close else "'csctl help' lists the verbs"
