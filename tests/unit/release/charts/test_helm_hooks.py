from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.release.charts.helm_hooks import APPLIED_HOOKS, OTHER_HOOKS, HookUse, use_of


@pytest.mark.parametrize(
    ("value", "use"),
    [
        *((hook, HookUse.APPLIED) for hook in sorted(APPLIED_HOOKS)),
        *((hook, HookUse.LEFT_OUT) for hook in sorted(OTHER_HOOKS)),
        ("pre-install,pre-delete", HookUse.APPLIED),
        (" Post-Delete , TEST ", HookUse.LEFT_OUT),
        ("crd-install", HookUse.UNKNOWN),
        ("pre-install,nonsense", HookUse.UNKNOWN),
        ("test,", HookUse.UNKNOWN),
        ("", HookUse.UNKNOWN),
        (True, HookUse.UNKNOWN),
        (["test"], HookUse.UNKNOWN),
    ],
)
def test_hooks_of_installation_and_upgrade_are_applied(value: object, use: HookUse) -> None:
    assert use_of(value) is use


@given(st.sets(st.sampled_from(sorted(APPLIED_HOOKS | OTHER_HOOKS)), min_size=1))
def test_one_hook_of_a_delivery_is_enough(hooks: set[str]) -> None:
    assert (use_of(",".join(hooks)) is HookUse.APPLIED) == bool(hooks & APPLIED_HOOKS)
