"""The memory limit is read as the kernel states it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.runtime.memory_limit import memory_limit

if TYPE_CHECKING:
    from pathlib import Path

V1_UNLIMITED = "9223372036854771712\n"


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "262144000\n"}, 262144000),
        ("0::/kubepods/pod1/c\n", {"kubepods/pod1/memory.max": "100\n", "kubepods/pod1/c/memory.max": "max\n"}, 100),
        ("0::/../../c\n", {"c/memory.max": "100\n", "memory.max": "200\n"}, 100),
        ("0::/\n", {}, None),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("4:memory:/pod/c\n", {"memory/memory.limit_in_bytes": "300\n"}, 300),
        ("4:cpu,memory:/c\n", {"memory/c/memory.limit_in_bytes": V1_UNLIMITED}, None),
        ("1:cpu:/c\n", {"memory/c/memory.limit_in_bytes": "300\n"}, None),
    ],
)
def test_the_lowest_limit_counts(tmp_path: Path, cgroup: str, files: dict[str, str], limit: int | None) -> None:
    for name, text in {"proc/self/cgroup": cgroup, **{f"sys/fs/cgroup/{file}": files[file] for file in files}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert memory_limit(tmp_path) == limit


def test_there_is_none_where_the_kernel_says_nothing(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) is None
