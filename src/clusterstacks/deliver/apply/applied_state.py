"""Recognizes objects that an interrupted delivery applied: sending them again would change nothing.

The server's field set of our manager has to name exactly the fields of the manifest, and the object has to have their
values. Anything unusual counts as a difference: then the object is sent again, which is always correct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.deliver.apply.ownership import applied_fields, held_by_predecessor

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.model.objects import Manifest

_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})
_NAMES: Final = frozenset({"name", "namespace"})
_WITH_PODS: Final = frozenset({"v1", "apps/v1", "batch/v1"})


def is_applied(sent: Manifest, live: Manifest) -> bool:
    """Return whether an apply of a manifest by our manager would change nothing.

    An empty value that the server dropped counts as a difference: the server also lacks it if it was never sent. Only
    an environment variable of a container means the same with and without an empty value.

    Args:
        sent: The manifest as it is sent.
        live: The whole object with its managed fields.
    """
    if live["metadata"].get("deletionTimestamp") or held_by_predecessor(live):
        return False
    content = {key: value for key, value in sent.items() if key not in _IDENTITY}
    metadata = {key: value for key, value in sent["metadata"].items() if key not in _NAMES}
    if metadata:
        content["metadata"] = metadata
    return _holds(applied_fields(live, sent["apiVersion"]), content, live, pods=sent["apiVersion"] in _WITH_PODS)


def _holds(fields: object, sent: Any, live: Any, *, pods: bool, within: str = "") -> bool:  # noqa: ANN401  # any JSON values
    """Return whether a field set names a value and nothing else, and the live value has all that was sent.

    Without members the field set names the value as a whole: a scalar, or a mapping or list that is replaced at once.
    Source of the format: https://github.com/kubernetes-sigs/structured-merge-diff, fieldpath/serialize.go.

    Args:
        fields: The field set.
        sent: The value that is sent.
        live: The live value.
        pods: Whether lists named ``env`` contain the environment variables of containers.
        within: Name of the field with the value, or with the list that contains it.
    """
    if not isinstance(fields, dict):
        return False
    members = {key: below for key, below in fields.items() if key != "."}
    if not members:
        return _equal(sent, live)
    if isinstance(sent, dict) and isinstance(live, dict):
        if pods and within == "env" and sent.get("value") == "" and not live.keys() & {"value", "valueFrom"}:
            # The server drops the empty value; the field set may have it nevertheless.
            sent = {key: below for key, below in sent.items() if key != "value"}
            members.pop("f:value", None)
        return members.keys() == {f"f:{key}" for key in sent} and all(
            key in live and _holds(members[f"f:{key}"], below, live[key], pods=pods, within=key)
            for key, below in sent.items()
        )
    if isinstance(sent, list) and isinstance(live, list) and len(members) == len(sent) == len(live):
        key_names = _key_names(next(iter(members)))
        return all(
            _holds(members.get(_element_key(there, key_names)), one, there, pods=pods, within=within)
            for one, there in zip(sent, live, strict=True)
        )
    return False


def _key_names(key: str) -> Collection[str]:
    """Return the names of the fields in the key of an element; those of all elements of a list are the same."""
    try:
        fields = orjson.loads(key.removeprefix("k:"))
    except orjson.JSONDecodeError:
        return ()
    return fields.keys() if isinstance(fields, dict) else ()


def _element_key(live: Any, names: Collection[str]) -> str:  # noqa: ANN401  # any JSON value
    """Return the key of a live element in a field set; a sent element may lack defaults that belong to the key.

    Args:
        live: The element.
        names: The fields of the key; none if the element is a scalar, which is its own key.
    """
    if not names:
        return f"v:{orjson.dumps(live).decode()}"
    fields = {name: live.get(name) for name in names} if isinstance(live, dict) else {}
    return f"k:{orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()}"


def _equal(sent: Any, live: Any) -> bool:  # noqa: ANN401  # any JSON values
    """Return whether two values are equal, also in their types: to Python, True equals 1."""
    if type(sent) is not type(live):
        return False
    if isinstance(sent, dict):
        return sent.keys() == live.keys() and all(_equal(below, live[key]) for key, below in sent.items())
    if isinstance(sent, list):
        return len(sent) == len(live) and all(map(_equal, sent, live))
    return bool(sent == live)
