"""Compares our YAML reader with the Kubernetes YAML library that Helm contains."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from clusterstacks.model.yaml import YamlError, load

if TYPE_CHECKING:
    from clusterstacks.deliver.render.renderer import Renderer

WORDS = """
yes Yes YES y Y n N on On oN off OFF true tRue ~ null Null NULL nULL 0 +5 -5 1_000 0_7 0644 -0644
0o644 0O17 007 0_ 0b101 -0b1 0b2 0o8 0x1F 0X1F 0x 0x_ 0b 0o 08 08.5 09.5 1e3 1E3 1.5e3 1e03 1. 1.0
.5 -.5 +.5 . .e1 0.1_5 1e 1e+ e1 1e6 1e21 1e400 12345678.5 0.00001 22:22 190:20:30 2024-01-01
2001-12-14T21:59:43Z = 1,000 1-2 nan inf 123456789012345678901234567890 0777777777777777777777777
"""
SCALARS = WORDS.split()
KEYS = [scalar for scalar in SCALARS if scalar not in {"~", "null", "Null", "NULL"}]


async def oracle(renderer: Renderer, texts: list[str]) -> list[object]:
    output = await renderer.template(
        "{{ range .texts }}{{ fromYaml . | toJson }}\n{{ end }}", {"texts": texts}, label="oracle", file="oracle"
    )
    return [json.loads(line) for line in output.splitlines()]


async def test_scalars_are_read_as_by_helm(renderer: Renderer) -> None:
    texts = [f"a: {scalar}\n" for scalar in SCALARS]

    for text, expected in zip(texts, await oracle(renderer, texts), strict=True):
        assert load(text) == expected, text


async def test_keys_are_read_as_by_helm(renderer: Renderer) -> None:
    texts = [f"{scalar}: 1\n" for scalar in KEYS]

    for text, expected in zip(texts, await oracle(renderer, texts), strict=True):
        try:
            assert load(text) == expected, text
        except YamlError as error:
            assert "quote it" in error.problem  # noqa: PT017 - refusing what others write with an exponent is fine
            assert re.search(r"\de[+-]\d", str(expected)), text


async def test_yaml_syntax_forms_are_read_as_by_helm(renderer: Renderer) -> None:
    texts = [
        "a: |\n  x\n\n  y\nb: >-\n  x\n  y\n",
        "base: &b {x: 1, y: 2}\nall: {<<: *b, x: 3}\n",
        "base: &b {x: 1}\nmore: &m {x: 2, z: 3}\nall: {<<: [*b, *m]}\n",
        'a: "\\x41\\u263a"\n',
        "? a\n: b\n",
        "a: !!str 5\nb: !!int '5'\n",
        "%YAML 1.1\n---\na: 1\n",
        "a:\n- b\n-\n  - c\n",
        "a: 'it''s'\nb: {c: [d, e]}\n",
    ]

    for text, expected in zip(texts, await oracle(renderer, texts), strict=True):
        assert load(text) == expected, text
