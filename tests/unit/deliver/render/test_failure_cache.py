"""The back-off of inputs that timed out or killed their worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.deliver.render import failure_cache
from clusterstacks.deliver.render.errors import RenderTimeout, WorkerDied
from clusterstacks.deliver.render.failure_cache import Failures

if TYPE_CHECKING:
    import pytest

ERROR = RenderTimeout("took longer than 60 s and was stopped")


def test_back_off_doubles_up_to_half_an_hour() -> None:
    remembered, now, waits = Failures(), 0.0, []
    for _ in range(8):
        until = remembered.remember(b"one", ERROR, now).until
        waits.append((until - now) / 60)
        assert remembered.recall(b"one", until - 1) is not None
        now = until
        assert remembered.recall(b"one", now) is None

    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


def test_recalled_failure_keeps_kind_and_message() -> None:
    remembered = Failures()
    remembered.remember(b"one", WorkerDied("was killed"), 0)

    found = remembered.recall(b"one", 1)

    assert found is not None
    assert (found.kind, found.message) == (WorkerDied, "was killed")


def test_success_resets_the_back_off_of_its_input() -> None:
    remembered = Failures()
    remembered.remember(b"one", ERROR, 0)
    remembered.remember(b"one", ERROR, 60)

    assert remembered.recall(b"two", 61) is None
    remembered.forget(b"one")
    assert not remembered
    assert remembered.remember(b"one", ERROR, 100).until == 160


def test_concurrent_failures_count_as_one() -> None:
    remembered = Failures()
    for _ in range(40):
        remembered.remember(b"one", ERROR, 0)

    assert remembered.remember(b"one", ERROR, 60).count == 2


def test_slow_input_stays_slow_after_success() -> None:
    remembered = Failures()
    remembered.note_slow(b"one")
    remembered.forget(b"one")

    assert (remembered.is_slow(b"one"), remembered.is_slow(b"two")) == (True, False)
    assert remembered


def test_number_of_remembered_inputs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_cache, "MAX_REMEMBERED", 2)
    remembered = Failures()
    for digest in (b"one", b"two", b"three"):
        remembered.remember(digest, ERROR, 0)
        remembered.note_slow(digest)

    assert [remembered.is_slow(digest) for digest in (b"one", b"two", b"three")] == [False, True, True]
    assert [remembered.recall(digest, 1) is not None for digest in (b"one", b"two", b"three")] == [False, True, True]
