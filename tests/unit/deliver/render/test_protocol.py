from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.render import protocol
from clusterstacks.deliver.render.protocol import BrokenFrameError, Frame, FrameBuffer

MESSAGES = st.dictionaries(st.text(max_size=5), st.integers(-(2**53), 2**53) | st.text(max_size=20), max_size=4)


@given(messages=st.lists(st.tuples(MESSAGES, st.binary(max_size=50)), min_size=1, max_size=4), cut=st.integers(1, 20))
def test_frames_are_reassembled_from_any_pieces(messages: list[tuple[dict[str, Any], bytes]], cut: int) -> None:
    for message, blob in messages:
        stream = protocol.encode(message, blob)
        buffer = FrameBuffer()

        arrived = [buffer.feed(stream[start : start + cut]) for start in range(0, len(stream), cut)]

        assert arrived[:-1] == [None] * (len(arrived) - 1)
        assert arrived[-1] == Frame(message, blob)


def test_buffer_returns_one_frame_after_the_other() -> None:
    buffer = FrameBuffer()

    assert buffer.feed(protocol.encode({"a": 1})) == Frame({"a": 1}, b"")
    assert buffer.feed(protocol.encode({}, b"x")) == Frame({}, b"x")


@pytest.mark.parametrize("received", [b"\xff" * protocol.HEADER_BYTES, b"\0\0\0\2\0\0\0\0[]", b"\0\0\0\2\0\0\0\0xx"])
def test_garbage_is_rejected_as_a_frame(received: bytes) -> None:
    with pytest.raises(BrokenFrameError):
        FrameBuffer().feed(received)


def test_truncated_header_is_rejected() -> None:
    with pytest.raises(BrokenFrameError):
        protocol.lengths(b"\0")


def test_part_above_the_limit_is_not_sent() -> None:
    with pytest.raises(BrokenFrameError, match="larger than"):
        protocol.encode({}, bytes(protocol.MAX_PART + 1))


def test_message_without_json_encoding_is_not_sent() -> None:
    with pytest.raises(BrokenFrameError, match="cannot be encoded as JSON"):
        protocol.encode({"a": object()})
