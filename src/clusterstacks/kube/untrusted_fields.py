"""Read fields off a kubeconfig whose author may be anybody: every refusal names the field and never its content."""

from __future__ import annotations

import base64
import binascii
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusterstacks.api import yaml, yaml_scalars
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def parse_yaml(
    text: bytes, origin: str, *, max_bytes: int = yaml.MAX_BYTES, max_values: int = yaml.MAX_VALUES
) -> Fields:
    """Read a YAML (or JSON) document; ``origin`` names the file or Secret in messages.

    Aliases and merge keys work as in kubectl, within the bounds; so does UTF-16, which PowerShell's ``>`` writes.

    Raises:
        SpecError: No YAML, something else than a mapping at its top, or more than the bounds.
    """
    if len(text) > max_bytes:
        raise refusal(origin, f"is larger than {max_bytes} bytes")
    try:
        content = text.decode("utf-16") if text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else text
        document = yaml.load(content, max_bytes=max_bytes, max_values=max_values, unique_keys=False, resolve=as_written)
    except yaml.YamlTooLarge as error:
        raise refusal(origin, error.problem) from None
    except (yaml.YamlError, UnicodeDecodeError) as error:
        # The parser's own words quote the text.
        line = getattr(error, "line", 0)
        raise refusal(origin, f"is not valid YAML (line {line})" if line else "is not valid YAML") from None
    if not isinstance(document, dict):
        raise refusal(origin, "is empty" if document is None else "is no mapping")
    return Fields(document, origin)


def as_written(text: str) -> yaml_scalars.Scalar:
    """Read a plain scalar; a name, token or password that only looks like a number or ``y`` keeps its spelling."""
    try:
        value = yaml_scalars.resolve(text)
    except ValueError:
        return text
    if isinstance(value, bool):
        return text if len(text) == 1 else value
    return value if value is None or str(value) == text else text


def refusal(where: str, what: str) -> SpecError:
    """Name what is wrong with a kubeconfig."""
    return SpecError("KubeconfigInvalid", f"{where} {what}")


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping inside a kubeconfig; ``where`` is the way to it: ``Secret a/b: users[0].user``."""

    content: Mapping[str, Any] = field(repr=False)
    where: str

    def has(self, name: str) -> bool:
        """Whether the field is there with a value that means something."""
        return self.content.get(name) not in (None, "", False, {}, [])

    def error(self, name: str, what: str) -> SpecError:
        """Name what is wrong with a field."""
        return refusal(self._path(name), what)

    def text(self, name: str) -> str:
        """A text, empty when absent; a number is taken as it is written, as kubectl does."""
        value = self.content.get(name)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(name, "is no text")
        return str(value)

    def flag(self, name: str) -> bool:
        """A boolean, False when absent."""
        value = self.content.get(name) or False
        if not isinstance(value, bool):
            raise self.error(name, "is neither true nor false")
        return value

    def decoded(self, name: str) -> bytes:
        """The bytes of a base64 text, empty when absent."""
        try:
            return base64.b64decode("".join(self.text(name).split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(name, "is no base64") from None

    def block(self, name: str) -> Fields:
        """A mapping, empty when absent."""
        return Fields(_mapping(self.content.get(name), self._path(name)), self._path(name))

    def blocks(self, name: str) -> Iterator[Fields]:
        """The mappings of a list, none when absent."""
        for number, value in enumerate(self._sequence(name)):
            where = f"{self._path(name)}[{number}]"
            yield Fields(_mapping(value, where), where)

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list, none when absent."""
        values = self._sequence(name)
        if not all(isinstance(value, str) for value in values):
            raise self.error(name, "holds something else than texts")
        return tuple(values)

    def _sequence(self, name: str) -> list[Any]:
        value = self.content.get(name) or []
        if not isinstance(value, list):
            raise self.error(name, "is no list")
        return value

    def _path(self, name: str) -> str:
        separator = "." if ": " in self.where else ": "
        return f"{self.where}{separator}{name}"


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal(where, "is no mapping")
    return value
