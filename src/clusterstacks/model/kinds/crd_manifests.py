"""The CustomResourceDefinitions of our kinds.

Group, version, plurals and short names are those of the Go operator. The columns begin with Ready and Reason; messages,
which are long, show only with ``kubectl get -o wide``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.kinds.clusteraddon import ClusterAddon
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.clusterstackrelease import ClusterStackRelease
from clusterstacks.model.kinds.compatibilityrule import CompatibilityRule
from clusterstacks.model.kinds.names import CLUSTERCTL_LABEL, GROUP, MOVE_HIERARCHY_LABEL, VERSION, VISUALIZER_LABEL

if TYPE_CHECKING:
    from pydantic import BaseModel

    from clusterstacks.model.kinds.meta import KubernetesObject
    from clusterstacks.model.objects import Manifest

_COPIED: Final = frozenset(
    {"type", "description", "format", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems", "minimum"}
)
_EXTENSIONS: Final = "x-kubernetes-"
_UNCHECKED: Final = "x-kubernetes-preserve-unknown-fields"
_HANDLED: Final = frozenset({"title", "default", "required", "const", "properties", "items", "additionalProperties"})
_REFERENCES: Final = "#/$defs/"


class UnsupportedSchemaError(TypeError):
    """A model uses a feature that the generator does not support."""


def structural_schema(model: type[BaseModel]) -> Manifest:
    """Return the structural schema of a model.

    References are resolved, and only keywords of structural schemas are allowed; UnsupportedSchemaError names the field
    with any other. An optional field is not nullable: the API server drops a null, as for the CRDs of the Go operator.
    Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
    """
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(document.pop("$defs", {})).convert(document, (model.__name__,))


class _Converter:
    def __init__(self, definitions: dict[str, Manifest]) -> None:
        self._definitions = definitions

    def convert(self, node: Manifest, path: tuple[str, ...]) -> Manifest:
        node = self._resolve(node, path)
        unknown = [key for key in node if not self._known(key)]
        if unknown:
            raise UnsupportedSchemaError(f"{'.'.join(path)}: {', '.join(unknown)} has no place in a structural schema")
        if "type" not in node and not node.get(_UNCHECKED):
            raise UnsupportedSchemaError(f"{'.'.join(path)}: a structural schema names the type of every field")
        written = {key: self._value(key, value, path) for key, value in sorted(node.items()) if _is_written(key, value)}
        if "const" in written:
            written["enum"] = [written.pop("const")]
        return written

    def _resolve(self, node: Manifest, path: tuple[str, ...]) -> Manifest:
        """Resolve references and optional types; keywords of the field itself take precedence."""
        own = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
        if "$ref" in node:
            return self._resolve(self._definitions[node["$ref"].removeprefix(_REFERENCES)], path) | own
        if "anyOf" in node:
            choices = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
            if len(choices) != 1:
                raise UnsupportedSchemaError(f"{'.'.join(path)}: a union has no structural form")
            return self._resolve(choices[0], path) | own
        return node

    @staticmethod
    def _known(key: str) -> bool:
        return key in _COPIED or key in _HANDLED or key.startswith(_EXTENSIONS)

    def _value(self, key: str, value: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
        match key:
            case "properties":
                return {name: self.convert(field, (*path, name)) for name, field in value.items()}
            case "items" | "additionalProperties":
                return self.convert(value, (*path, key))
            case _:
                return value


def _is_written(key: str, value: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether a keyword is written; titles and empty defaults, which would fill stored objects, are not."""
    return key != "title" and not (key == "default" and value in (None, "", [], {}))


CATEGORY: Final = "cluster-api"
"""``kubectl get cluster-api`` lists our objects with those of Cluster API."""

TERMS: Final = "The project's docs/explanation/glossary.md explains the terms."
"""Last sentence of the description of each kind, for ``kubectl explain``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; a wide column is shown only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False

    def document(self) -> Manifest:
        """Return the entry of additionalPrinterColumns."""
        written: Manifest = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            written["description"] = self.description
        if self.wide:
            written["priority"] = 1
        return written


@dataclass(frozen=True, slots=True, kw_only=True)
class CRDOptions:
    """Properties of a CRD besides its schema.

    ``clusterctl move`` starts at ``root`` kinds and moves what they own, and what a Cluster owns. ``cluster_wide``
    kinds are cluster-scoped and not moved, because they belong to the management cluster.
    """

    model: type[KubernetesObject]
    short_name: str
    columns: tuple[Column, ...]
    root: bool = False
    cluster_wide: bool = False

    def document(self) -> Manifest:
        """Return the CustomResourceDefinition."""
        kind = self.model.__name__
        plural = f"{kind.lower()}s"
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{plural}.{GROUP}",
                "labels": {
                    CLUSTERCTL_LABEL: "",
                    VISUALIZER_LABEL: "",
                    **({MOVE_HIERARCHY_LABEL: "true"} if self.root else {}),
                },
            },
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": kind,
                    "listKind": f"{kind}List",
                    "plural": plural,
                    "singular": kind.lower(),
                    "shortNames": [self.short_name],
                    "categories": [CATEGORY],
                },
                "scope": "Cluster" if self.cluster_wide else "Namespaced",
                "versions": [self._version()],
            },
        }

    def _version(self) -> Manifest:
        subresources: Manifest = {"subresources": {"status": {}}} if "status" in self.model.model_fields else {}
        return {
            "name": VERSION,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": _root_schema(self.model)},
            **subresources,
            "additionalPrinterColumns": [column.document() for column in self.columns],
        }


def _root_schema(model: type[KubernetesObject]) -> Manifest:
    """Return the schema of the whole object.

    The API server itself validates metadata. Neither spec nor status is required, as in the Go operator's CRDs; the
    operator refuses an object without a required spec when it reads it.
    """
    properties = structural_schema(model)["properties"]
    return {
        "type": "object",
        "description": f"{model.__doc__} {TERMS}",
        "properties": {
            "apiVersion": {"type": "string", "description": "API group and version of the object."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            **{part: properties[part] for part in ("spec", "status") if part in properties},
        },
    }


def _ready(column: str) -> str:
    return f".status.conditions[?(@.type=='Ready')].{column}"


_READY: Final = Column("Ready", _ready("status"), description="True if the object can be used.")
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date", "Time since the object was created.")
_REASON: Final = Column("Reason", _ready("reason"), description="Why the object is not ready, as one word.")
_MESSAGE: Final = Column("Message", _ready("message"), description="Cause and remedy, or what it has.", wide=True)

DEFINITIONS: Final = (
    CRDOptions(
        model=ClusterStack,
        short_name="csk",
        root=True,
        columns=(
            _READY,
            _REASON,
            Column("Provider", ".spec.provider"),
            Column("ClusterStack", ".spec.name"),
            Column("K8s", ".spec.kubernetesVersion"),
            Column("Usable", ".status.usableVersions"),
            _AGE,
            Column("Channel", ".spec.channel", wide=True),
            Column("Autosubscribe", ".spec.autoSubscribe", wide=True),
            Column("Latest", ".status.latestRelease", wide=True),
            _MESSAGE,
        ),
    ),
    CRDOptions(
        model=ClusterStackRelease,
        short_name="cskr",
        columns=(
            _READY,
            _REASON,
            Column("K8s Version", ".status.kubernetesVersion"),
            _AGE,
            Column("Digest", ".status.digest", description="Digest of the release's files.", wide=True),
            _MESSAGE,
        ),
    ),
    CRDOptions(
        model=ClusterAddon,
        short_name="caddon",
        columns=(
            _READY,
            _REASON,
            Column("Cluster", '.metadata.ownerReferences[?(@.kind=="Cluster")].name'),
            Column("Class", ".spec.clusterStack", description="Class whose addons were delivered last."),
            Column("K8s", ".status.observedKubernetesVersion", description="Version of the control plane."),
            Column("Progress", ".status.progress", description="Complete stages and all stages of the rollout."),
            _AGE,
            Column("Target", ".status.target", description="Class whose addons are being rolled out.", wide=True),
            Column("Hook", ".spec.hook", description="Hook of the running stages.", wide=True),
            _MESSAGE,
        ),
    ),
    CRDOptions(
        model=CompatibilityRule,
        short_name="crule",
        cluster_wide=True,
        columns=(
            Column("Severity", ".spec.severity"),
            Column("Expires", ".spec.expires", "date"),
            _AGE,
            Column("Message", ".spec.message", description="Reason for the rule."),
        ),
    ),
)


def all_crds() -> list[Manifest]:
    """Return the CRDs of all our kinds."""
    return [definition.document() for definition in DEFINITIONS]
