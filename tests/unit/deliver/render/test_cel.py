"""Messages about CEL expressions that cannot be evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.deliver.render import cel
from clusterstacks.deliver.render.errors import CelFailed, CelUndecided
from clusterstacks.model.errors import ClusterStacksError
from tests.support.observing.cpu_time import no_stall

OBJECTS: dict[str, Any] = {
    "info": {"data": {"clusterName": "hunter2", "port": "1"}, "status": {"n": 1, "list": [1, {"a": 2}], "none": {}}},
    "other": {"data": {"clusterNam": "there"}},
}
WAIT = "wait until the objects change"
DATA = "info.data has no key 'clusterNam', only 'clusterName', 'port': write 'clusterName', or " + WAIT


@pytest.mark.regression("USER-10")
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("info.data.clusterNam == 'a'", DATA),
        ("info.data['clusterNam'] == 'a'", DATA),
        ('info.data["clusterNam"] == "a"', DATA),
        ("other.data.clusterNam == info.data.clusterNam", DATA),
        ("info.dta.clusterName == 'a'", f"info has no key 'dta', only 'data', 'status': write 'data', or {WAIT}"),
        (
            "info.status.b == 1",
            f"info.status has no key 'b', only 'list', 'n', 'none': {WAIT}, or correct the condition",
        ),
        ("info.status.none.b == 1", "info.status.none has no key 'b', because it is empty: wait"),
        ("info.status.list[1].b == 1", "an object lacks the key 'b': wait"),
        ("info.status.list[7] == 1", "index=7 size=2: wait"),
        ("info.data.clusterName.foo == 1", "the condition reads a field of a value that has no fields: wait"),
        ("info.status > 1", "No matching overloads found : _>_(map, int64): wait"),
        ("inof.data.clusterName", "; write info.data.clusterName, because the keys of its objects are 'info', 'other'"),
        ("gpu.data", "undeclared reference to 'gpu.data'; the keys of its objects are 'info', 'other': correct"),
        ("info.foo()", "undeclared reference to 'foo'; correct the condition"),
        ("info ==", "Syntax error"),
        ("info.status.n = 1", "; write == to compare"),
    ],
)
def test_message_names_cause_and_remedy(expression: str, said: str) -> None:
    with pytest.raises((CelFailed, CelUndecided)) as caught:
        cel.holds(expression, OBJECTS)

    assert said in caught.value.message
    assert "in container" not in caught.value.message


def test_message_does_not_contain_values_of_objects() -> None:
    with pytest.raises(CelUndecided) as caught:
        cel.holds("info.status[info.data.clusterName] == 1", OBJECTS)

    assert caught.value.message.startswith("an object lacks a key that the condition computes: ")


@pytest.mark.parametrize("keys", [20_000, 2])
def test_comparison_with_many_and_long_keys_is_bounded(keys: int) -> None:
    mapping = {f"{number:05}".ljust(100_000 // keys, "x"): 1 for number in range(keys)}

    with no_stall(), pytest.raises(ClusterStacksError) as caught:
        cel.holds(f"o.{'y' * 1500} == 1", {"o": mapping})

    assert len(caught.value.message) < 5000
