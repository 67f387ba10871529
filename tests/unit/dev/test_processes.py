from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import process_records, processes
from clusterstacks.dev.processes import Command, Process, ProcessError, describe_exit, start_on_free_port

if TYPE_CHECKING:
    from pathlib import Path

SLEEP = "import time; time.sleep(60)"
AT_ONCE = timedelta(0)


def command(tmp_path: Path, code: str, *, ready: bool = True) -> Command:
    return Command(
        name="demo",
        argv=(sys.executable, "-S", "-c", code),
        log=tmp_path / "demo.log",
        ready=lambda: ready,
    )


def record_of(process: subprocess.Popen[bytes]) -> process_records.ProcessRecord:
    return process_records.ProcessRecord(name="x", pid=process.pid, identity=process_records.identity_of(process.pid))


def test_process_that_exits_while_starting_is_reported_with_its_last_log_lines(tmp_path: Path) -> None:
    process = Process(command(tmp_path, "import sys; sys.exit('flag provided but not defined')", ready=False))

    with pytest.raises(ProcessError, match=r"(?s)demo exited with code 1 while starting\nflag provided"):
        process.launch()


def test_process_that_is_not_ready_in_time_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "READY_TIMEOUT", timedelta(milliseconds=300))
    process = Process(command(tmp_path, SLEEP, ready=False))

    with pytest.raises(ProcessError, match=r"demo was not ready after 0\.3 s"):
        process.launch()
    assert not process.running


def test_missing_program_is_named(tmp_path: Path) -> None:
    process = Process(replace(command(tmp_path, ""), argv=("/nowhere/etcd",)))

    with pytest.raises(ProcessError, match="demo cannot be started: /nowhere/etcd: No such file"):
        process.launch()


def test_stop_kills_frozen_processes_and_those_ignoring_sigterm(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    )
    process = Process(command(tmp_path, stubborn))
    process.start()
    process.send(signal.SIGSTOP)
    process.stop(timedelta(milliseconds=100))

    assert process.exit_code is not None
    process.stop(AT_ONCE)  # once more does nothing


def test_taken_port_is_replaced_by_another() -> None:
    tried: list[int] = []

    class Server:
        def __init__(self, port: int) -> None:
            tried.append(port)

        def launch(self) -> None:
            if len(tried) < 3:
                raise ProcessError("etcd exited", "listen tcp 127.0.0.1:1: bind: address already in use")

    start_on_free_port(Server)
    assert len(set(tried)) == 3


def test_other_start_failures_are_not_retried() -> None:
    class Server:
        def __init__(self, _: int) -> None: ...

        def launch(self) -> None:
            raise ProcessError("etcd exited", "panic")

    with pytest.raises(ProcessError, match="panic"):
        start_on_free_port(Server)


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exited with code 0"), (-9, "was ended by SIGKILL"), (-99, "was ended by signal 99")]
)
def test_end_of_a_process_is_described(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_recycled_process_id_is_not_the_same_process() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", SLEEP])
    try:
        real = record_of(child)
        recycled = replace(real, identity=f"{real.identity}1")
        assert real.alive
        assert not recycled.alive
        process_records.end([recycled])
        assert child.poll() is None
        process_records.end([real])
        assert child.wait() == -signal.SIGKILL
        assert not real.alive
    finally:
        child.kill()
        child.wait()


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_records.identity_of(child.pid) == ""
    child.wait()


def test_records_are_read_back_and_invalid_ones_are_skipped(tmp_path: Path) -> None:
    written = process_records.ProcessRecord(
        name="default/prod", pid=7, identity="boot:12", version="v1.36", port=20_000
    )
    process_records.write(tmp_path, written)
    process_records.write(tmp_path, process_records.ProcessRecord(name="etcd", pid=3, identity="boot:9"))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"colour": "blue"}')

    assert [record.name for record in process_records.read_all(tmp_path)] == ["etcd", "default/prod"]
    assert process_records.read(tmp_path, "default/prod") == written
    process_records.remove(tmp_path, "default/prod")
    assert process_records.read(tmp_path, "default/prod") is None


def test_usage_of_this_process_is_plausible() -> None:
    usage = process_records.usage_of(os.getpid())

    assert usage is not None
    assert usage.memory_bytes > 5_000_000
    assert usage.cpu_seconds > 0
    assert process_records.usage_of(0) is None
