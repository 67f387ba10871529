"""Texts of tenants and workload clusters end as errors within milliseconds, whatever they say."""

from __future__ import annotations

import pytest

from clusterstacks.domain.errors import SpecError
from clusterstacks.kube.kubeconfig import MAX_SECRET_BYTES, parse_secret_kubeconfig
from tests.support.stopwatch import no_stall

SECRET = "Secret tenant/first-kubeconfig"

FLOW = "[" + "[]," * 260_000 + "]"


def merges(levels: int) -> str:
    """Repeat ten aliases of the level above in the merge key of each level."""
    lines = ["a0: &a0 {hunter2: 1}"]
    lines += [f"a{level}: &a{level}\n  <<: [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


KUBECONFIGS = {
    "100,000 brackets": "a: " + "[" * 100_000,
    "200,000 brackets": "[" * 200_000,
    "merge keys of merge keys": merges(8),
    "780 KB of empty lists": FLOW,
    "empty lists up to the bound": FLOW[:MAX_SECRET_BYTES],
    "a list in a list after a carriage return": "a:\r" + "- " * 200_000,
    "a list in a list after a line separator": "a:\N{LINE SEPARATOR}" + "- " * 150_000,
    "a list in a list after a byte order mark": "\ufeff" + "- " * 200_000,
    "questions": "? " * 200_000,
    "braces and brackets": "[{" * 200_000,
    "many keys": "\n".join(f"k{number}: hunter2" for number in range(30_000)),
    "many documents": "---\n" * 100_000,
    "one mapping merged with many empty ones": (
        "a: &a {" + ", ".join(f"k{number}: 1" for number in range(900)) + "}\n<<: [*a" + ", {}" * 900 + "]"
    ),
    "one mapping merged through many levels": (
        "{<<: " * 190 + "{" + ", ".join(f"k{number}: 1" for number in range(1_000)) + "}" + "}" * 190
    ),
    "a long number": "a: " + "1" * 500_000,
    "a long word": "a: " + "hunter2" * 70_000,
    "asterisks": "*" * 500_000,
    "aliases": "a: &a 1\nb: [" + "*a, " * 100_000 + "]",
}


@pytest.mark.parametrize("text", KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_sec_2_no_kubeconfig_of_a_secret_stalls_or_crashes_the_operator(text: str) -> None:
    content = text.encode()

    with no_stall(), pytest.raises(SpecError) as caught:
        parse_secret_kubeconfig(content, origin=SECRET)

    assert str(caught.value).startswith(SECRET)
    assert "hunter2" not in str(caught.value)
