"""Structural schemas, as the API server wants them, from pydantic models.

The rules: references are written out, only keywords a structural schema may have are let through, and anything this
module does not know is refused when the schema is generated. An optional field is no nullable one: the API server then
drops a null, as for the CRDs of the Go operator.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import BaseModel

    from clusterstacks.domain.objects import Manifest

_COPIED: Final = frozenset(
    {"type", "description", "format", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems", "minimum"}
)
_EXTENSIONS: Final = "x-kubernetes-"
_HANDLED: Final = frozenset({"title", "default", "required", "const", "properties", "items", "additionalProperties"})
_REFERENCES: Final = "#/$defs/"


class UnsupportedSchemaError(TypeError):
    """A model uses something the generator does not know; its author must change the model or the generator."""


def structural_schema(model: type[BaseModel]) -> Manifest:
    """Give the structural schema of what the API server reads for this model.

    Raises:
        UnsupportedSchemaError: Names the field and the keyword or union that has no structural form.
    """
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(document.pop("$defs", {})).convert(document, (model.__name__,))


class _Converter:
    def __init__(self, definitions: dict[str, Manifest]) -> None:
        self._definitions = definitions

    def convert(self, node: Manifest, path: tuple[str, ...]) -> Manifest:
        node = self._written_out(node, path)
        unknown = [key for key in node if not self._known(key)]
        if unknown:
            raise UnsupportedSchemaError(f"{'.'.join(path)}: {', '.join(unknown)} has no place in a structural schema")
        if "type" not in node:
            raise UnsupportedSchemaError(f"{'.'.join(path)}: a structural schema names the type of every field")
        written = {
            key: self._value(key, value, path) for key, value in sorted(node.items()) if _says_something(key, value)
        }
        if "const" in written:
            written["enum"] = [written.pop("const")]
        return written

    def _written_out(self, node: Manifest, path: tuple[str, ...]) -> Manifest:
        """Replace a reference, and an optional of something, by the thing itself; the field's own words win."""
        own = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
        if "$ref" in node:
            return self._written_out(self._definitions[node["$ref"].removeprefix(_REFERENCES)], path) | own
        if "anyOf" in node:
            choices = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
            if len(choices) != 1:
                raise UnsupportedSchemaError(f"{'.'.join(path)}: a union has no structural form")
            return self._written_out(choices[0], path) | own
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


def _says_something(key: str, value: Any) -> bool:  # noqa: ANN401 - JSON
    """Leave out titles, and defaults that only say what absence means: stored objects must not be filled with them."""
    return key != "title" and not (key == "default" and value in (None, "", [], {}))
