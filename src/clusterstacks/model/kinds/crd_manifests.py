"""The CustomResourceDefinitions of our kinds.

Group, version, plurals and short names are those of the Go operator. What is not in the schema of a kind is in its
attribute ``crd``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.kinds.names import (
    CLUSTERCTL_LABEL,
    MOVE_HIERARCHY_LABEL,
    VERSION,
    VISUALIZER_LABEL,
    Kind,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from clusterstacks.model.kinds.meta import Column, KubernetesObject
    from clusterstacks.model.objects import Manifest

_PACKAGE: Final = "clusterstacks.model.kinds"
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


def crd(model: type[KubernetesObject]) -> Manifest:
    """Return the CustomResourceDefinition of a kind."""
    kind, options = model.__name__, model.crd
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{options.group}",
            "labels": {
                CLUSTERCTL_LABEL: "",
                VISUALIZER_LABEL: "",
                **({MOVE_HIERARCHY_LABEL: "true"} if options.root else {}),
            },
        },
        "spec": {
            "group": options.group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [options.short_name],
                "categories": [CATEGORY],
            },
            "scope": "Cluster" if options.cluster_wide else "Namespaced",
            "versions": [_version(model)],
        },
    }


def _version(model: type[KubernetesObject]) -> Manifest:
    subresources: Manifest = {"subresources": {"status": {}}} if "status" in model.model_fields else {}
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root_schema(model)},
        **subresources,
        "additionalPrinterColumns": [_column(column) for column in model.crd.columns],
    }


def _column(column: Column) -> Manifest:
    """Return the entry of additionalPrinterColumns."""
    written: Manifest = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        written["description"] = column.description
    if column.wide:
        written["priority"] = 1
    return written


def _root_schema(model: type[KubernetesObject]) -> Manifest:
    """Return the schema of the whole object.

    The API server itself validates metadata. Neither spec nor status is required, as in the Go operator's CRDs; the
    operator refuses an object without a required spec when it reads it.
    """
    properties = structural_schema(model)["properties"]
    rules = [{"rule": rule, "message": message} for rule, message in model.crd.rules]
    return {
        "type": "object",
        "description": f"{model.__doc__} {TERMS}",
        **({"x-kubernetes-validations": rules} if rules else {}),
        "properties": {
            "apiVersion": {"type": "string", "description": "API group and version of the object."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            **{part: properties[part] for part in ("spec", "status") if part in properties},
        },
    }


def all_crds() -> list[Manifest]:
    """Return the CRDs of all our kinds; each is a class in the module of its name."""
    return [crd(getattr(import_module(f"{_PACKAGE}.{kind.lower()}"), kind)) for kind in Kind]
