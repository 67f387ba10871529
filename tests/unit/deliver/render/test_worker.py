from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.render import protocol
from clusterstacks.deliver.render.errors import CelFailed, RenderFailed, shortened
from clusterstacks.deliver.render.worker import Worker, WorkerChart, WorkerChartCache, encode_reply, read_frame

if TYPE_CHECKING:
    from clusterstacks.model.errors import ClusterStacksError


def worker_that(raises: BaseException) -> Worker:
    worker = Worker()

    def operation(_: dict[str, Any], __: bytes) -> dict[str, Any]:
        raise raises

    worker._operations["probe"] = operation
    return worker


class TestAnswers:
    @pytest.mark.parametrize("error", [RenderFailed("why"), CelFailed("why")])
    def test_worker_replies_with_the_error_of_the_input(self, error: ClusterStacksError) -> None:
        assert worker_that(error).answer({"operation": "probe"}, b"") == {
            "error": type(error).__name__,
            "message": "why",
        }

    def test_bug_is_reported_by_position_without_content(self) -> None:
        reply = worker_that(KeyError("a secret value")).answer({"operation": "probe"}, b"")

        assert reply["bug"].startswith("KeyError at answer:")
        assert "secret" not in reply["bug"]

    def test_exhausted_memory_is_reported(self) -> None:
        assert worker_that(MemoryError()).answer({"operation": "probe"}, b"") == {"exhausted": True}

    def test_worker_requests_an_unknown_chart(self) -> None:
        assert Worker().answer({"operation": "chart", "digest": "d"}, b"") == {"wanted": True}

    def test_reply_above_the_limit_becomes_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(protocol, "MAX_PART", 200)

        reply = protocol.FrameBuffer().feed(encode_reply({"result": "x" * 300}))

        assert reply is not None
        assert reply.message["error"] == "RenderFailed"

    def test_end_of_input_is_not_a_frame(self) -> None:
        assert read_frame(io.BytesIO()) is None
        assert read_frame(io.BytesIO(protocol.encode({"a": 1}, b"x"))) == protocol.Frame({"a": 1}, b"x")


class TestChartCache:
    def test_cache_keeps_sent_charts(self) -> None:
        cache = WorkerChartCache()

        assert cache.chart("d", WorkerChart(b"chart", {})) == WorkerChart(b"chart", {})
        assert cache.chart("d", None) == WorkerChart(b"chart", {})

    def test_cache_drops_the_least_recently_used_chart(self) -> None:
        cache = WorkerChartCache(limit=2)
        for digest in ("a", "b"):
            cache.chart(digest, WorkerChart(b"x", {}))
        cache.chart("a", None)
        cache.chart("c", WorkerChart(b"x", {}))

        assert [cache.chart(digest, None) for digest in ("a", "b", "c")] == [
            WorkerChart(b"x", {}),
            None,
            WorkerChart(b"x", {}),
        ]

    def test_chart_above_the_limit_is_kept_until_the_next(self) -> None:
        cache = WorkerChartCache(limit=1)

        assert cache.chart("big", WorkerChart(b"xx", {})) == WorkerChart(b"xx", {})
        assert cache.chart("big", None) == WorkerChart(b"xx", {})


def test_long_message_keeps_start_and_end_on_one_line() -> None:
    text = shortened("head\n  " + "x" * 5000 + "\n tail", 100)

    assert text.startswith("head x")
    assert text.endswith("x tail")
    assert len(text) < 110
    assert shortened("a\n  b") == "a b"
