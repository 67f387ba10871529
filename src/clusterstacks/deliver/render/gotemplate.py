"""Renders a single Go template with sprig by the engine of Helm. Only for worker processes.

Each file of a chart is a named template, so a chart of two files is enough: the template, and a line that calls it with
the data as its dot. Objects of Helm (``.Release``, ``.Files``) are not available, and error positions are those of the
template.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.deliver.render import helm
from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.release.charts.archive import write_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest

_USER: Final = "t/templates/_t.tpl"
_MAIN: Final = "t/templates/main.yaml"
_OPTIONS: Final = {"name": "t", "namespace": "t"}


def render(text: str, data: Manifest, file: str) -> str:
    """Render ``text`` with ``data`` as its dot.

    Raises:
        RenderFailed: The message of Helm about an invalid expression; names ``file``, line and expression.
    """
    main = f'{"".join(_integers(data))}{{{{ template "{_USER}" .Values }}}}'
    try:
        return helm.render(_packed(text, main), data, _OPTIONS).templates[_MAIN]
    except RenderFailed as error:
        raise RenderFailed(error.message.replace(_USER, file)) from None


def _packed(text: str, main: str) -> bytes:
    files = {"t/Chart.yaml": "apiVersion: v2\nname: t\nversion: 0.0.0\n", _USER: text, _MAIN: main}
    return write_archive({path: content.encode() for path, content in files.items()}, level=1)


def _integers(data: Manifest) -> Iterator[str]:
    """Yield actions that restore every integer.

    Helm receives values as floats, which print as ``1e+06`` and cannot be compared with ``eq .port 6443``. In the
    templates of the Go operator they are integers.
    """
    yield from (
        f"{{{{ $_ := set {place} {json.dumps(key, ensure_ascii=False)} {literal} }}}}"
        for place, key, literal in _assignments(data, ())
    )


def _assignments(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _assignments(item, (*path, number))
        return
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if _is_integer(item) or _holds_integers(item):
            yield _reference(path), key, _literal(item, (*path, key))
        yield from _assignments(item, (*path, key))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _holds_integers(value: object) -> bool:
    return isinstance(value, list) and any(_is_integer(item) or _holds_integers(item) for item in value)


def _literal(value: Any, path: tuple[str | int, ...]) -> str:  # noqa: ANN401 - any JSON value
    if _is_integer(value):
        return str(value)
    if _holds_integers(value):
        return f"(list {' '.join(_literal(item, (*path, number)) for number, item in enumerate(value))})"
    return _reference(path)


def _reference(path: tuple[str | int, ...]) -> str:
    steps = " ".join(json.dumps(step, ensure_ascii=False) for step in path)
    return f"(index .Values {steps})" if steps else ".Values"
