"""One definition of a file: a dataclass gives its reader, its messages, its known keys and its schema for editors.

A part of a file is a frozen dataclass on :class:`Section`, and pydantic reads a loaded document into it. Keys are the
names of the fields in camel case, unless ``Field(alias=...)`` says otherwise. Descriptions are those of the docstrings.
Null is the same as an absent key: a field with a default gets the default, and any other is reported as missing.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, core_schema

from clusterstacks.model.documents import DocumentError, Node, shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.ranges import Range
from clusterstacks.model.versions import StackVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import ErrorDetails
    from pydantic_core.core_schema import SerializerFunctionWrapHandler

    from clusterstacks.model.objects import Manifest

_T = TypeVar("_T")
_REMEDY: Final = "remedy"
_ARGUMENT: Final = re.compile(r"^    (\w+): (.+(?:\n     +.+)*)", re.MULTILINE)

CLOSED: Final = ConfigDict(alias_generator=to_camel, extra="forbid")
"""Configuration of sections in which unknown keys are not valid."""

OPEN: Final = CLOSED | ConfigDict(extra="ignore")
"""Configuration of sections in which readers and editors ignore unknown keys."""


class Section:
    """Base of the dataclasses that define a file; unknown keys are not valid in it."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Read null as an absent key, and an absent key without a default as null, so that its own check reports it."""
        section: Any = handler(source)
        required = [field["validation_alias"] for field in _fields(section) if field["schema"]["type"] != "default"]

        def present(value: object) -> object:
            if not isinstance(value, dict):
                return value
            # pydantic reports keys that are not strings even where unknown keys are ignored.
            keyed = {key if isinstance(key, str) else shown(key): item for key, item in value.items()}
            return dict.fromkeys(required) | {key: item for key, item in keyed.items() if item is not None}

        # With the reference of the section itself, pydantic would skip this function where a section is used again.
        return core_schema.no_info_before_validator_function(
            present,
            section,
            ref=section.pop("ref"),
            serialization=core_schema.wrap_serializer_function_ser_schema(_without_empty, schema=section),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, section: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> Manifest:
        """Take the descriptions from the docstring of the class."""
        schema_or_reference = handler(section)
        described = handler.resolve_ref_schema(schema_or_reference)
        purpose, _, arguments = inspect.cleandoc(cls.__doc__ or "").partition("\n\nArgs:\n")
        described["description"] = purpose
        keys = {field["name"]: field["validation_alias"] for field in _fields(section)}
        for name, text in _ARGUMENT.findall(arguments):
            described["properties"][keys[name]]["description"] = " ".join(text.split())
        return schema_or_reference


def _fields(section: Any) -> list[Any]:  # noqa: ANN401 - a schema of pydantic
    arguments = section["schema"]["schema"] if section["type"] == "function-before" else section["schema"]
    fields: list[Any] = arguments["fields"]
    return fields


def _without_empty(section: object, handler: SerializerFunctionWrapHandler) -> Manifest:
    written = handler(section).items()
    return {key: value for key, value in written if value is not False and value not in (None, "", (), [], {})}


@dataclass(frozen=True, slots=True)
class Remedy:
    """Annotation of a scalar: what to write instead of a value of another type or form."""

    text: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.custom_error_schema(handler(source), _REMEDY, custom_error_message=self.text)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Annotation of a field that a function reads from a text.

    Args:
        parse: Raises SpecError, whose message is that of the field unless it has a :class:`Remedy`.
        pattern: The form of the text, for editors.
    """

    parse: Callable[[object], object]
    pattern: str = ""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read, serialization=core_schema.to_string_ser_schema(when_used="unless-none")
        )

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> Manifest:
        return {"type": "string", "pattern": self.pattern} if self.pattern else {"type": "string", "minLength": 1}

    def _read(self, value: object) -> object:
        try:
            return self.parse(value)
        except SpecError as error:
            raise PydanticCustomError("statement", "{message}", {"message": error.message}) from None


def matching(pattern: str) -> Any:  # noqa: ANN401 - an annotation of pydantic
    """Annotation of a text of which the whole must match a pattern."""
    return Field(pattern=f"^{pattern}$")


def refusal(remedy: str, *place: str | int) -> PydanticCustomError:
    """Return the error of a validator.

    Args:
        remedy: What to write instead.
        place: Path of the wrong value below the validated one.
    """
    return PydanticCustomError(_REMEDY, "{remedy}", {"remedy": remedy, "place": place})


def unique(key: str, remedy: str, attribute: str = "") -> AfterValidator:
    """Return the check that no two sections of a list have the same value of a key.

    Args:
        key: The key, for messages.
        remedy: What to do about the second.
        attribute: The attribute to compare, if it has not the name of the key.
    """

    def check(sections: tuple[_T, ...]) -> tuple[_T, ...]:
        values = [getattr(section, attribute or key) for section in sections]
        for at, value in enumerate(values):
            if value in values[:at]:
                raise refusal(remedy, at, key)
        return sections

    return AfterValidator(check)


def _filled(text: str) -> str:
    if not text.strip():
        raise refusal("write a non-empty string")
    return text


NUMBER: Final = "(0|[1-9][0-9]*)"
"""Pattern of a number without leading zeros."""

STACK_VERSION: Final = rf"^v{NUMBER}(-[0-9A-Za-z_]+[.-][0-9A-Za-z_]+)?$"
"""Pattern of the version of a cluster stack."""

_COMPARATOR: Final = rf"(>=|>|<=|<|=){NUMBER}\.{NUMBER}(\.{NUMBER})?"

Text = Annotated[str, AfterValidator(_filled), Field(json_schema_extra={"minLength": 1})]
"""A text that is not empty."""
OptionalText = Annotated[str, AfterValidator(lambda text: text and _filled(text))]
"""A text that may be empty."""
StackVersionText = Annotated[
    StackVersion,
    Parsed(StackVersion.parse, STACK_VERSION),
    Remedy("write a version like v3 or v0-beta.1"),
]
"""A version of a release or of one of its components."""
RangeText = Annotated[Range, Parsed(Range.parse, rf"^{_COMPARATOR}( (\|\| )?{_COMPARATOR})*$")]
"""A range of versions."""


def write(section: Section) -> Manifest:
    """Return the document that :func:`read` reads as this section, without empty keys."""
    document: Manifest = _reader(type(section)).dump_python(section, by_alias=True)
    return document


_READERS: Final[dict[object, TypeAdapter[Any]]] = {}


def _reader(definition: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a class, or a list of it
    """Return the reader of a definition, which is made at its first use: a process reads few kinds of files."""
    if definition not in _READERS:
        _READERS[definition] = TypeAdapter(definition)
    return _READERS[definition]


def read(
    definition: type[_T],
    document: object,
    *,
    file: str,
    error: type[DocumentError] = DocumentError,
    ignore_unknown: bool = False,
) -> _T:
    """Read a loaded document.

    Args:
        definition: A :class:`Section`, or a list of sections.
        file: Name of the document in messages.
        error: Class of the error.
        ignore_unknown: Ignore unknown keys, although they are not valid: lint reports them.

    Raises:
        DocumentError: Its message names the first fault; all are in ``faults``.
    """
    try:
        value: _T = _reader(definition).validate_python(document, extra="ignore" if ignore_unknown else None)
    except ValidationError as invalid:
        # An unknown key explains a missing one.
        faults = sorted(invalid.errors(include_url=False), key=lambda fault: fault["type"] != _UNKNOWN)
    else:
        return value
    messages = tuple(_message(fault, file, definition) for fault in faults)
    raise error(messages[0], messages)


def unknown_keys(definition: object, document: object) -> tuple[tuple[tuple[str | int, ...], Sequence[str]], ...]:
    """Return the path of each unknown key of a document, and the keys that are known there."""
    try:
        _reader(definition).validate_python(document)
    except ValidationError as invalid:
        unknown = [fault["loc"] for fault in invalid.errors(include_url=False) if fault["type"] == _UNKNOWN]
        return tuple((path, _known(definition, path[:-1])) for path in unknown)
    return ()


_UNKNOWN: Final = "unexpected_keyword_argument"
_REMEDIES: Final = {
    "dataclass_type": "write a mapping",
    "dict_type": "write a mapping",
    "mapping_type": "write a mapping",
    "tuple_type": "write a list",
    "string_type": "write a non-empty string",
    "bool_type": "write true or false",
}


def _message(fault: ErrorDetails, file: str, definition: object) -> str:
    """Return the message of one fault: file, field, value found and remedy."""
    context = fault.get("ctx", {})
    path = fault["loc"] + context.get("place", ())
    if fault["type"] == _UNKNOWN:
        *parent, unknown = path
        place = _place(file, parent)
        return f"{place} has the unknown field {unknown}: known are {', '.join(_known(definition, parent))}"
    if path[-1:] == ("[key]",):
        return Node({}, file, field_path(path[:-2])).refuse("use names as keys").message
    if fault["type"] == "statement":
        return f"{_place(file, path)}: {fault['msg']}"
    value = fault["input"]
    for step in context.get("place", ()):
        value = value[step] if isinstance(step, int) else value.get(step)
    if fault["type"] in ("enum", "literal_error"):
        remedy = f"write {context['expected']}".replace("'", "")
    else:
        remedy = _REMEDIES.get(fault["type"], fault["msg"])
    # An empty tuple is a default: documents contain lists.
    return Node(None if value == () else value, file, field_path(path)).refuse(remedy).message


def _place(file: str, path: Sequence[str | int]) -> str:
    return f"{file}: {field_path(path)}" if path else file


def field_path(path: Sequence[str | int]) -> str:
    """Return the path of a field as messages have it: ``spec.versions[0]``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def schema(definition: object) -> Manifest:
    """Return the JSON Schema of a file (draft 7), without references; an optional key may be null."""
    document = _reader(definition).json_schema()
    return _inlined(document, document.pop("$defs", {}))


def _inlined(node: Manifest, definitions: Manifest) -> Manifest:
    own = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "title", "default")}
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions) | own
    for choice in node.get("anyOf", ()):
        if choice != {"type": "null"}:
            return _inlined(choice, definitions) | own
    for key in ("items", "additionalProperties"):
        if isinstance(own.get(key), dict):
            own[key] = _inlined(own[key], definitions)
    if "properties" in own:
        required = own["required"] = [*dict.fromkeys(own.get("required", ()))]
        fields = {name: _inlined(field, definitions) for name, field in own["properties"].items()}
        own["properties"] = {name: field if name in required else _nullable(field) for name, field in fields.items()}
    return own


def _nullable(field: Manifest) -> Manifest:
    if "enum" in field:
        return {**field, "enum": [*field["enum"], None], "type": ["string", "null"]}
    return {**field, "type": [field["type"], "null"]} if isinstance(field.get("type"), str) else field


def _known(definition: object, path: Sequence[str | int]) -> list[str]:
    """Return the keys of the mapping at a path."""
    node = schema(definition)
    for step in path:
        below = node["items"] if isinstance(step, int) else node["properties"].get(step)
        node = below or node["additionalProperties"]
    return sorted(node["properties"])
