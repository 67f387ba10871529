"""Cluster API's core manager as a Deployment: the manifests of its module, adapted to run without cert-manager."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev import go_build
from clusterstacks.dev.capi_managers import CORE
from clusterstacks.dev.loopback import request
from clusterstacks.dev.toolchain import CLUSTER_API
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.yaml import load_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.binaries import Binary
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.pki import Authority

IMAGE = "cluster-stacks.local/cluster-api-core"
"""Name of its image, which contains the manager that this project builds."""
NAMESPACE = "capi-system"
CERTIFICATE_SECRET = "capi-webhook-service-cert"
WEBHOOK_HOSTS = (f"capi-webhook-service.{NAMESPACE}.svc",)
CERT_MANAGER = "cert-manager.io"
DEPLOYMENT = "capi-controller-manager"
TIMEOUT_SECONDS = 300.0
"""Timeout of the Deployment, which takes 3 s on a quiet machine; arbitrary."""
POLL_SECONDS = 0.2
VARIABLES = {"CLUSTER_TOPOLOGY": "true", "EXP_RUNTIME_SDK": "true", "EXP_RECONCILER_RATE_LIMITING": "false"}
"""The variables of clusterctl that differ from their defaults; without the last one each step takes up to a second."""
_VARIABLE = re.compile(r"\$\{(\w+):=([^}]*)\}")


def components(kubectl: Binary, cache: Path, report: Callable[[str], None]) -> str:
    """Return the manifests as Cluster API publishes them; they are cached.

    Raises:
        DependencyError: The module cannot be downloaded, or kustomize rejects it.
    """
    kept = cache / f"{CORE.name}-{go_build.cluster_api_version()}-components.yaml"
    if not kept.exists():
        module = go_build.find_go(cache, report).module_directory("cluster-api", CLUSTER_API)
        command = (kubectl.path, "kustomize", module / CORE.config / "default")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DependencyError("KustomizeFailed", f"cannot read the manifests of Cluster API: {done.stderr.strip()}")
        with tempfile.TemporaryDirectory(dir=cache) as staging:
            staged = Path(staging) / kept.name
            staged.write_text(done.stdout)
            staged.replace(kept)
    return kept.read_text()


def image(version: str) -> str:
    """Return the reference of the image of a version."""
    return f"{IMAGE}:{version}"


def deployment(text: str, version: str, authority: Authority) -> tuple[list[Manifest], list[Manifest]]:
    """Adapt the manifests: image, variables, and certificates of ``authority``.

    Returns:
        The objects to apply first, in order, and the webhook configurations, to apply when the Deployment is available.
    """
    filled = _VARIABLE.sub(lambda found: VARIABLES.get(found[1], found[2]), text)
    objects = [_trusting(found, authority.certificate) for found in load_all(filled.encode()) if found]
    objects = [found for found in objects if not found["apiVersion"].startswith(f"{CERT_MANAGER}/")]
    for found in objects:
        if found["kind"] == "Deployment":
            (container,) = found["spec"]["template"]["spec"]["containers"]
            container.update(image=image(version), imagePullPolicy="IfNotPresent")
    webhooks = [found for found in objects if found["kind"].endswith("WebhookConfiguration")]
    others = [_certificate(authority), *(found for found in objects if found not in webhooks)]
    return sorted(others, key=lambda found: _ORDER.get(found["kind"], len(_ORDER))), webhooks


def await_available(server: ApiServer) -> None:
    """Return when the Deployment is available.

    Raises:
        DependencyError: It is not available in time.
    """
    url = f"{server.url}/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{DEPLOYMENT}"
    end = time.monotonic() + TIMEOUT_SECONDS
    while not json.loads(request(url, context=server.context)[1]).get("status", {}).get("availableReplicas"):
        if time.monotonic() > end:
            raise DependencyError(
                "ClusterApiUnavailable",
                f"Deployment {NAMESPACE}/{DEPLOYMENT} was not available after {TIMEOUT_SECONDS:g} s; "
                f"'kubectl --namespace {NAMESPACE} get pods,events' shows why",
            )
        time.sleep(POLL_SECONDS)


_ORDER = {"Namespace": 0, "CustomResourceDefinition": 1}


def _trusting(manifest: Manifest, authority: bytes) -> Manifest:
    """Add the authority wherever cert-manager would."""
    bundle = base64.b64encode(authority).decode()
    for webhook in manifest.get("webhooks", []):
        webhook["clientConfig"]["caBundle"] = bundle
    conversion = manifest.get("spec", {}).get("conversion", {}) if manifest["kind"].startswith("CustomResource") else {}
    if "webhook" in conversion:
        conversion["webhook"]["clientConfig"]["caBundle"] = bundle
    return manifest


def _certificate(authority: Authority) -> Manifest:
    pair = authority.issue("capi-webhook", hosts=WEBHOOK_HOSTS)
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": CERTIFICATE_SECRET, "namespace": NAMESPACE},
        "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
    }
