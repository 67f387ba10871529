"""Examples that the help of verbs ends with."""

from __future__ import annotations

from typing import Final

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
