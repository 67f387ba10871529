from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.apply.targets import digest_of, mark_of
from tests.support.builders.manifests import config_map, deployment

SENT: dict[str, Any] = {"metadata": {"name": "a", "labels": {"ours": "1"}, "annotations": {"ours": "2"}}}


def live(generation: int = 3, version: str = "77", **texts: Any) -> dict[str, Any]:
    metadata = {"name": "a", "generation": generation, "resourceVersion": version, **SENT["metadata"], **texts}
    return {"metadata": metadata}


def test_the_order_of_keys_does_not_count() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(config_map("a")) != digest_of(deployment("a"))


def test_a_status_update_moves_no_mark() -> None:
    assert mark_of(live(version="78"), SENT) == mark_of(live(), SENT)


def test_a_changed_specification_moves_the_mark() -> None:
    assert mark_of(live(generation=4), SENT) != mark_of(live(), SENT)


def test_kinds_without_generation_are_marked_by_their_resource_version() -> None:
    assert mark_of(live(generation=0), SENT).resource_version == "77"
    assert mark_of(live(generation=0, version="78"), SENT) != mark_of(live(generation=0), SENT)


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_changed_text_of_ours_moves_the_mark_and_others_texts_do_not(field: str) -> None:
    ours: dict[str, str] = SENT["metadata"][field]

    def mark(texts: dict[str, str]) -> Any:
        return mark_of(live(**{field: texts}), SENT)  # type: ignore[arg-type]  # mypy fits the value to every parameter

    assert mark(ours | {"others": "x"}) == mark_of(live(), SENT)
    assert mark({"ours": "x"}) != mark_of(live(), SENT)
    assert mark({}) != mark_of(live(), SENT)
