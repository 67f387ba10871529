"""The lease rules of client-go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.runtime.leases import (
    Decision,
    LeaseDurations,
    LeaseRecord,
    LeaseWait,
    Lost,
    ObservedRecord,
    Renew,
    Take,
    decide_leadership,
    held_record,
    observe,
    read_record,
    record_spec,
    released_record,
)

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
STAMP = "2026-01-31T12:00:00.000000Z"
EARLIER = "2026-01-31T11:00:00.000000Z"
OTHERS = LeaseRecord("other", 15, EARLIER, EARLIER, 3)
OURS = LeaseRecord("we", 15, EARLIER, EARLIER, 3)
FREE = LeaseRecord("", 1, EARLIER, EARLIER, 3)

CASES: dict[str, tuple[ObservedRecord | None, float | None, float, Decision]] = {
    "there is no lease": (None, None, 0, Take()),
    "it is free": (ObservedRecord(FREE, 100), None, 100, Take()),
    "another one holds it": (ObservedRecord(OTHERS, 100), None, 100, LeaseWait("other", 115)),
    "it has not changed for almost its duration": (ObservedRecord(OTHERS, 100), None, 114.9, LeaseWait("other", 115)),
    "it has not changed for its duration": (ObservedRecord(OTHERS, 100), None, 115, Take()),
    "the duration in the record counts": (
        ObservedRecord(LeaseRecord("other", 60), 100),
        None,
        115,
        LeaseWait("other", 160),
    ),
    "a record without duration does not last": (ObservedRecord(LeaseRecord("other"), 100), None, 100, Take()),
    "it is ours from before a restart": (ObservedRecord(OURS, 100), None, 100, Take()),
    "we hold it": (ObservedRecord(OURS, 100), 110, 100, Renew(110)),
    "we hold it almost for too long": (ObservedRecord(OURS, 100), 110, 109.9, Renew(110)),
    "we could not renew it": (ObservedRecord(OURS, 100), 110, 110, Lost("it could not be renewed in time")),
    "we were stopped for long": (ObservedRecord(OURS, 100), 110, 1000, Lost("it could not be renewed in time")),
    "another one took it from us": (ObservedRecord(OTHERS, 100), 110, 100, Lost("other took it")),
    "somebody emptied it": (ObservedRecord(FREE, 100), 110, 100, Lost("it was released by another process")),
    "somebody deleted it": (None, 110, 100, Renew(110)),
}


@pytest.mark.parametrize(("seen", "held_until", "now", "decision"), CASES.values(), ids=CASES)
def test_decisions(seen: ObservedRecord | None, held_until: float | None, now: float, decision: Decision) -> None:
    assert decide_leadership(seen, "we", held_until, now) == decision


def test_only_a_change_of_the_record_counts_as_renewal() -> None:
    first = observe(None, OTHERS, 1)
    assert observe(first, OTHERS, 5) == ObservedRecord(OTHERS, 1)
    assert observe(first, held_record(OTHERS, "other", LeaseDurations(), NOW), 5).since == 5


def test_a_change_of_the_holder_is_counted_and_a_renewal_is_not() -> None:
    assert held_record(None, "we", LeaseDurations(), NOW) == LeaseRecord("we", 15, STAMP, STAMP, 0)
    assert held_record(FREE, "we", LeaseDurations(), NOW) == LeaseRecord("we", 15, STAMP, STAMP, 4)
    assert held_record(OTHERS, "we", LeaseDurations(), NOW) == LeaseRecord("we", 15, STAMP, STAMP, 4)
    assert held_record(OURS, "we", LeaseDurations(), NOW) == LeaseRecord("we", 15, EARLIER, STAMP, 3)


def test_a_released_lease_is_free_and_keeps_its_count() -> None:
    given_back = released_record(OURS, NOW)
    assert given_back == LeaseRecord("", 1, STAMP, STAMP, 3)
    assert decide_leadership(ObservedRecord(given_back, 0), "other", None, 0) == Take()


@pytest.mark.parametrize("lease", [{}, {"spec": None}, {"spec": {}}, {"spec": {"holderIdentity": None}}])
def test_an_empty_lease_is_free(lease: dict[str, object]) -> None:
    assert read_record(lease) == LeaseRecord()


records = st.builds(LeaseRecord, st.text(max_size=3), st.integers(0, 60), st.text(), st.text(), st.integers(0))


@given(records)
def test_written_lease_is_read_back(record: LeaseRecord) -> None:
    assert read_record({"spec": record_spec(record)}) == record


moments = st.floats(0, 100)


@given(st.builds(ObservedRecord, records, moments), st.text(max_size=3), st.none() | moments, moments, moments)
def test_time_only_takes_away(seen: ObservedRecord, we: str, held: float | None, now: float, later: float) -> None:
    """A lease that is lost stays lost, and one that may be taken may be taken later, if nothing else happens."""
    before, after = (
        decide_leadership(seen, we, held, min(now, later)),
        decide_leadership(seen, we, held, max(now, later)),
    )
    order = (Renew, Lost) if held is not None else (LeaseWait, Take)
    assert order.index(type(before)) <= order.index(type(after))
