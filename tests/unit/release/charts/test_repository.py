from __future__ import annotations

import json
import time

import pytest

from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.release.charts import repository
from clusterstacks.release.charts.repository import IndexEntry, read_entries

HEX = "ab" * 32
ENTRIES = {
    "cache": [
        {"version": "1.0.0", "urls": ["https://h.example/cache-1.0.0.tgz"], "digest": HEX},
        {"version": "1.1.0", "urls": ["cache-1.1.0.tgz"], "digest": f"sha256:{HEX}", "description": "a\n  b: c\n#d\n"},
        {"version": "1.2.0", "urls": ["x"], "digest": "md5:1"},
        {"version": "1.3.0", "urls": []},
        {"version": 2, "urls": ["x"]},
        "nonsense",
    ],
    "cache-proxy": [{"version": "9.0.0", "urls": ["z"]}],
    "empty": [],
}
FOUND = (
    IndexEntry("1.0.0", "https://h.example/cache-1.0.0.tgz", f"sha256:{HEX}"),
    IndexEntry("1.1.0", "cache-1.1.0.tgz", f"sha256:{HEX}"),
    IndexEntry("1.2.0", "x", ""),
)

AS_HELM_WRITES_IT = f"""\
apiVersion: v1
entries:
  alpha:
  - description: |
      entries:
        cache:
    urls: [a]
    version: 0.1.0
  # a remark
  cache:
  - created: "2026-01-01T00:00:00Z"
    digest: {HEX}
    urls:
    - https://h.example/cache-1.0.0.tgz
    version: 1.0.0
  - description: "long
      text"
    digest: {HEX}
    urls:
    - cache-1.1.0.tgz
    version: 1.1.0

  - urls: [x]
    version: 1.2.0
  cache-proxy:
  - urls: [z]
    version: 9.0.0
generated: "2026-01-01T00:00:00Z"
"""


@pytest.mark.parametrize(
    "text",
    [
        AS_HELM_WRITES_IT,
        AS_HELM_WRITES_IT.replace("\n", "\r\n"),
        AS_HELM_WRITES_IT.replace("  cache:", '  "cache":').replace("entries:", "'entries':", 1),
        yaml.dump({"entries": ENTRIES}),
        json.dumps({"entries": ENTRIES}),
        f"entries: {json.dumps(ENTRIES)}\n",
        f"entries:\n  cache: {json.dumps(ENTRIES['cache'])}\n",
        AS_HELM_WRITES_IT.replace("- urls: [x]", "- urls: &u [x]").replace("- urls: [z]", "- urls: *u"),
    ],
)
def test_index_entries_are_read_in_every_form(text: str) -> None:
    assert read_entries(text.encode(), "cache", "index") == FOUND


def test_index_entries_of_similar_chart_names_are_separate() -> None:
    assert [entry.version for entry in read_entries(AS_HELM_WRITES_IT.encode(), "cache-proxy", "index")] == ["9.0.0"]
    assert read_entries(AS_HELM_WRITES_IT.encode(), "cach.", "index") == ()


@pytest.mark.parametrize("text", ["{}", "entries:\n", "entries: {}\n", "apiVersion: v1\n", AS_HELM_WRITES_IT])
def test_chart_missing_in_the_index_has_no_versions(text: str) -> None:
    assert read_entries(text.encode(), "absent", "index") == ()


@pytest.mark.parametrize(
    "text", ["", "<html>", "{", "entries: 1", "entries:\n  cache: 1\n", "a: [", "entries:\n  cache:\n  - }\n"]
)
def test_invalid_index_is_named_in_the_error(text: str) -> None:
    with pytest.raises(SpecError, match="index"):
        read_entries(text.encode(), "cache", "index")


def test_large_index_is_cut_before_it_is_parsed() -> None:
    other = AS_HELM_WRITES_IT.split("  # a remark\n", maxsplit=1)[0].removeprefix("apiVersion: v1\nentries:\n")
    many = "".join(other.replace("alpha", f"alpha{number}") for number in range(200_000))
    index = AS_HELM_WRITES_IT.replace("entries:\n", f"entries:\n{many}", 1).encode()
    assert len(index) > 19_000_000

    began = time.process_time()
    found = read_entries(index, "cache", "index")

    assert found == FOUND
    assert time.process_time() - began < 2


def test_large_index_of_an_unusual_form_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repository, "MAX_WHOLE_BYTES", 100)

    with pytest.raises(SpecError, match="write it with helm repo index"):
        read_entries(f"entries: {json.dumps(ENTRIES)}\n".encode(), "cache", "index")
