from __future__ import annotations

import gc

from tests.support.observing.stalls import measured

MIB = 1024 * 1024


class Garbage:
    """Memory that only a full collection frees, because it refers to itself."""

    def __init__(self) -> None:
        self.me = self
        self.memory = bytearray(MIB)


async def test_garbage_from_before_the_block_is_no_memory_of_the_block() -> None:
    gc.disable()
    try:
        for _ in range(100):
            Garbage()
        async with measured() as cost:
            pass
    finally:
        gc.enable()

    assert cost.memory < 10 * MIB


async def test_memory_that_the_block_freed_again_counts() -> None:
    async with measured() as cost:
        bytearray(b"x") * (100 * MIB)

    assert 90 * MIB < cost.memory < 200 * MIB
