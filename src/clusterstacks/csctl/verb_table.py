"""The verbs of csctl with their examples, and suggestions for verbs that it does not have."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_STACK: Final = "providers/openstack/scs/1-35"
_RELEASE: Final = "openstack-scs-1-35-v1"
_REF: Final = f"registry.example.org/kaas/stacks:{_RELEASE}"


class Verb(NamedTuple):
    """A verb of csctl; the command in ``module`` has its name."""

    module: str
    title: str
    """Short help."""
    examples: tuple[str, ...]
    """Arguments; those of a verb with commands begin with one of them."""


VERBS: Final[Mapping[str, Verb]] = {
    "attest": Verb(
        "clusterstacks.csctl.verbs.attest",
        "State that a stage has run a release.",
        (
            f"{_REF} --stage staging --key staging.key",
            f"{_REF} --stage staging --key staging.key --file conformance.xml",
            f"{_REF} --stage staging --key staging.key --verdict failed",
        ),
    ),
    "build-images": Verb(
        "clusterstacks.csctl.verbs.build_images",
        "Build the node images of a stack.",
        (_STACK, f"{_STACK} -d images --time-limit 1h"),
    ),
    "compat": Verb(
        "clusterstacks.csctl.verbs.compat",
        "Show which versions work together.",
        (
            "calendar default/my-cluster",
            f"check {_REF}",
            "check default/my-cluster --kubernetes v1.36.1",
            "import endoflife products/nginx.md",
            "import plural console/static/compatibilities",
            f"infer {_STACK}",
            f"matrix {_STACK}",
            "show cilium",
            "update cilium.yaml",
        ),
    ),
    "completion": Verb("clusterstacks.csctl.verbs.completion", "Print the completion script of a shell.", ("bash",)),
    "copy": Verb(
        "clusterstacks.csctl.verbs.copy",
        "Copy releases to another registry or a directory.",
        (
            f"{_REF} mirror.example.net/stacks --images images.txt",
            "'registry.example.org/kaas/stacks:openstack-scs-1-3*' mirror.example.net/stacks",
            "--all registry.example.org/kaas/stacks oci-layout:carried",
            "--all oci-layout:carried mirror.example.net/stacks -o json",
        ),
    ),
    "crds": Verb(
        "clusterstacks.csctl.verbs.crds",
        "Print the CustomResourceDefinitions.",
        ("", "| kubectl apply --server-side --force-conflicts -f -"),
    ),
    "create": Verb(
        "clusterstacks.csctl.verbs.create",
        "Build releases of stacks, and publish them.",
        (
            f"{_STACK} --remote none",
            f"{_STACK} --remote oci --publish",
            f"{_STACK} --mode hash -o json",
        ),
    ),
    "demo": Verb(
        "clusterstacks.dev.verbs.demo",
        "Show releases, clusters and upgrades in a local environment.",
        ("", "--ranges", "--upgrade --keep", "--openstack"),
    ),
    "dev": Verb(
        "clusterstacks.dev.verbs.dev",
        "Run Cluster API and the operator on this machine.",
        (
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
    ),
    "diff": Verb(
        "clusterstacks.csctl.verbs.diff",
        "Show the differences of two stacks or releases.",
        (f".release/{_RELEASE} {_STACK}", f"{_REF} .release/{_RELEASE}"),
    ),
    "drift": Verb(
        "clusterstacks.csctl.verbs.cluster_drift",
        "Show objects that differ from what was delivered.",
        ("default/my-cluster", "default/my-cluster --exit-code -o json"),
    ),
    "explain": Verb("clusterstacks.csctl.verbs.explain", "Explain a condition or reason.", ("InSync", "HealthTimeout")),
    "generate": Verb(
        "clusterstacks.csctl.verbs.generate",
        "Print a new Cluster with the variables of its class.",
        ("cluster my-cluster --stack scs", f"cluster team-a/prod --stack kaas/scs --release {_RELEASE}"),
    ),
    "hash": Verb("clusterstacks.csctl.verbs.hash", "Print the hashes of a stack directory.", (_STACK,)),
    "help": Verb("clusterstacks.csctl.help", "Print the help of csctl or of a verb.", ("create", "dev up")),
    "history": Verb(
        "clusterstacks.csctl.verbs.history",
        "List what each delivery to a Cluster changed.",
        ("default/my-cluster", "default/my-cluster -o json"),
    ),
    "impact": Verb(
        "clusterstacks.csctl.verbs.impact",
        "Show what a release would change on live Clusters.",
        (f".release/{_RELEASE}", f".release/{_RELEASE} --context staging --context prod -o json"),
    ),
    "index": Verb("clusterstacks.csctl.verbs.index", "Write the index of a directory of releases.", ("www",)),
    "init": Verb("clusterstacks.csctl.verbs.init", "Write a new stack.", ("openstack/scs/1-35",)),
    "install": Verb(
        "clusterstacks.csctl.verbs.install",
        "Install the operator, or check a management cluster.",
        (
            "--check",
            "--image registry.example.org/kaas/cluster-stack-operator --values values.yaml --wait",
            "--image registry.example.org/kaas/cluster-stack-operator --export",
            "--image registry.example.org/kaas/cluster-stack-operator --values values.yaml --observe",
        ),
    ),
    "kubeconfig": Verb(
        "clusterstacks.csctl.verbs.kubeconfig",
        "Print the kubeconfig of a workload cluster.",
        ("my-cluster", "default/my-cluster > my-cluster.kubeconfig"),
    ),
    "lint": Verb(
        "clusterstacks.csctl.verbs.lint",
        "Report problems of a stack.",
        (".", f"{_STACK} --against management.kubeconfig", _REF, ". -o sarif"),
    ),
    "list": Verb(
        "clusterstacks.csctl.verbs.listing",
        "List the releases in a repository.",
        (
            "registry.example.org/kaas/stacks",
            "registry.example.org/kaas/stacks --evidence --key staging.pub",
            "github://example-org/cluster-stacks -o json",
        ),
    ),
    "login": Verb(
        "clusterstacks.csctl.verbs.login",
        "Log in to a registry.",
        ("registry.example.org", "registry.example.org -u robot --password-stdin < token"),
    ),
    "logout": Verb("clusterstacks.csctl.verbs.login", "Remove the login of a registry.", ("registry.example.org",)),
    "plan": Verb(
        "clusterstacks.csctl.verbs.plan",
        "Plan an upgrade step by step.",
        ("my-cluster", "my-cluster -n default --to 1.36", "default/my-cluster --to v1.36.1"),
    ),
    "pull": Verb("clusterstacks.csctl.verbs.pull", "Download a release.", (_REF, f"{_REF} -d releases")),
    "push": Verb(
        "clusterstacks.csctl.verbs.push",
        "Push a release to a registry.",
        (f".release/{_RELEASE} registry.example.org/kaas/stacks",),
    ),
    "reconcile": Verb(
        "clusterstacks.csctl.verbs.cluster_actions",
        "Compare and restore the objects of a Cluster or a sync now.",
        ("default/my-cluster", "default/my-cluster --no-wait", "--sync default/clouds"),
    ),
    "resume": Verb(
        "clusterstacks.csctl.verbs.cluster_actions",
        "Continue the delivery to a Cluster, or of a sync.",
        ("default/my-cluster", "--sync default/clouds"),
    ),
    "schemas": Verb("clusterstacks.csctl.verbs.schemas", "Write JSON schemas for editors.", (".schemas",)),
    "sign": Verb(
        "clusterstacks.csctl.verbs.sign",
        "Sign a release.",
        (
            "--new-key release.key",
            f".release/{_RELEASE} --key release.key",
            f".release/{_RELEASE} --new-key release.key",
        ),
    ),
    "status": Verb(
        "clusterstacks.csctl.verbs.status",
        "List Clusters or syncs, or describe the state of a Cluster.",
        (
            "",
            "-l stage=prod --troubled",
            "--group-by namespace",
            "-n team-a -o json",
            "default/my-cluster",
            "default/my-cluster --watch",
            "--syncs --troubled",
            "--context eu-1 --context eu-2",
        ),
    ),
    "suspend": Verb(
        "clusterstacks.csctl.verbs.cluster_actions",
        "Pause the delivery to a Cluster, or of a sync.",
        ("default/my-cluster", "--sync default/clouds"),
    ),
    "template": Verb(
        "clusterstacks.csctl.verbs.template",
        "Print the rendered objects of a stack or release.",
        (f"{_STACK} --class", f"{_STACK} --addon cni --values", f"{_REF} --images"),
    ),
    "trace": Verb(
        "clusterstacks.csctl.verbs.trace",
        "Tell where an object of a workload cluster comes from.",
        ("default/my-cluster Deployment kube-system/coredns", "my-cluster ConfigMap cluster-info -o json"),
    ),
    "ui": Verb(
        "clusterstacks.csctl.verbs.ui",
        "Show clusters and releases in a browser.",
        ("-A", "-n team-a --port 8001 --no-open"),
    ),
    "uninstall": Verb(
        "clusterstacks.csctl.verbs.uninstall",
        "Remove the operator from a management cluster.",
        ("--dry-run", "--namespace cluster-stack-system"),
    ),
    "upgrade": Verb(
        "clusterstacks.csctl.verbs.upgrade",
        "Upgrade Clusters step by step.",
        (
            "default/my-cluster",
            "default/my-cluster --to v1.36.1",
            "default/my-cluster --to v1.36.1 --dry-run -o json",
            "default/my-cluster --to latestPatch --window '02:00+4h Europe/Berlin' --yes --wait 1m",
            "-l ring=canary --to openstack-scs-1-36-v2 --max 5 --window 'Sat,Sun 02:00+4h Europe/Berlin' -o yaml",
        ),
    ),
    "values": Verb(
        "clusterstacks.csctl.verbs.values",
        "Print the values of the addons of a Cluster.",
        ("default/my-cluster", "my-cluster --addon cni -o yaml"),
    ),
    "verify": Verb(
        "clusterstacks.csctl.verbs.verify",
        "Verify the signatures of a release.",
        (f"{_REF} --key release.key.pub", f"{_REF} --evidence --key staging.pub"),
    ),
    "version": Verb(
        "clusterstacks.csctl.verbs.version",
        "Print the versions of csctl, operator and management cluster.",
        ("", "--client", "-o json"),
    ),
    "why": Verb(
        "clusterstacks.csctl.verbs.why",
        "Explain why an upgrade is refused, and what to do first.",
        ("default/my-cluster v1.36.1",),
    ),
}

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Write stacks": ("init", "lint", "template", "diff", "compat", "schemas", "hash", "build-images", "create"),
    "Publish releases": ("sign", "verify", "attest", "push", "pull", "copy", "list", "index", "login", "logout"),
    "Use clusters": (
        *("generate", "status", "ui", "plan", "why", "impact", "upgrade", "history", "drift", "values", "trace"),
        *("kubeconfig", "reconcile", "suspend", "resume"),
    ),
    "Run the operator": ("install", "uninstall", "crds"),
    "Try it on this machine": ("demo", "dev"),
    "Other": ("explain", "version", "completion", "help"),
}
"""The verbs by what a user does, in the order of the help."""

_OBJECTS: Final = "'csctl status' lists Clusters with their releases, 'csctl status CLUSTER' describes one"
_LOGS: Final = "'kubectl logs' prints the log of the operator: the field object of its lines names the Cluster"
_INSTALL: Final = "'csctl install' installs the operator, 'csctl uninstall' removes it"

SUGGESTIONS: Final = {
    "auth": "'csctl login' logs in to a registry; logins of docker, podman, helm and oras are used as well",
    **dict.fromkeys(("tree", "describe", "watch", "ps", "top"), _OBJECTS),
    "fleet": _OBJECTS,
    "get": "'kubectl get clusters,clusterstacks,clusterstackreleases,clusteraddons' lists objects; " + _OBJECTS,
    **dict.fromkeys(("event", "events"), "'csctl status CLUSTER' prints the newest events, 'kubectl events' lists all"),
    **dict.fromkeys(("log", "logs"), _LOGS),
    **dict.fromkeys(("validate", "doctor", "test", "vet"), "'csctl lint' reports problems of a stack"),
    "check": "'csctl lint' reports problems of a stack, 'csctl install --check' those of a management cluster",
    **dict.fromkeys(("build", "package", "pack", "make"), "'csctl create' builds releases"),
    **dict.fromkeys(("publish", "upload", "deploy"), "'csctl push' publishes a release in a registry"),
    **dict.fromkeys(("download", "fetch", "get-release"), "'csctl pull' downloads a release"),
    **dict.fromkeys(
        ("export", "save", "backup", "bundle"),
        "'csctl pull' writes a release to a directory, 'csctl copy' releases with their signatures to an image layout",
    ),
    **dict.fromkeys(("mirror", "promote"), "'csctl copy' copies a release to another repository"),
    "sync": "'csctl reconcile' compares and restores the objects of a Cluster, 'csctl copy' copies releases",
    **dict.fromkeys(
        ("render", "show", "inspect"), "'csctl template' prints the rendered objects of a stack or release"
    ),
    **dict.fromkeys(("new", "scaffold", "start"), "'csctl init' writes a new stack"),
    "rollback": "'csctl plan' prints the steps back, where the releases allow them",
    "reason": "'csctl explain' explains a reason in a status, 'csctl why' a refusal",
    **dict.fromkeys(("search", "ls", "releases", "tags"), "'csctl list' lists releases"),
    **dict.fromkeys(("matrix", "compatibility", "facts"), "'csctl compat' shows which versions work together"),
    **dict.fromkeys(
        ("apply", "edit", "patch", "delete", "rm", "remove", "scale", "label", "annotate"),
        f"'kubectl' changes objects, for example 'kubectl edit cluster NAME'; {_INSTALL}",
    ),
    **dict.fromkeys(("setup", "bootstrap"), _INSTALL),
    **dict.fromkeys(
        ("config", "context", "contexts", "ctx"),
        "'kubectl config' chooses the management cluster, and so do --kubeconfig and --context",
    ),
    **dict.fromkeys(("rollout", "update"), "'csctl upgrade' upgrades Clusters, 'csctl plan' lists the steps"),
    **dict.fromkeys(("app", "apps", "list-clusters"), _OBJECTS),
    "manifests": "'csctl template' prints the objects of a release, 'csctl trace' tells where one of them comes from",
    "get-credentials": "'csctl kubeconfig' prints the kubeconfig of a workload cluster",
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
