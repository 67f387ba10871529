from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.authoring.missing_values import RefusedFunctionError, described, with_checks
from clusterstacks.csctl.authoring.template_syntax import UnreadableActionError, actions


def examined(text: str) -> list[str]:
    """Return the checked expressions."""
    return [check.value for check in with_checks(text)[1]]


class TestInspectedExpressions:
    """A value is checked where it is printed, or where a function uses it."""

    @pytest.mark.parametrize(
        ("text", "values"),
        [
            ("a: 1", []),
            ("{{ .a.b }}", [".a.b"]),
            ("{{- $x.b -}}", ["$x.b"]),
            ("{{ . }}", ["."]),
            ("{{ .a | quote }}", [".a", ".a | quote"]),
            ("{{ quote .a }}", [".a", "quote .a"]),
            ('{{ index .a "b" | quote }}', [".a", 'index .a "b"', 'index .a "b" | quote']),
            ("{{ (.a).b }}", ["(.a).b"]),
            ("{{ (first .a) }}", [".a", "first .a"]),
            ('{{ printf "%s" .a }}', [".a", 'printf "%s" .a']),
            ('{{ dict "k" .a | toYaml }}', [".a", 'dict "k" .a', 'dict "k" .a | toYaml']),
            ('{{ get .a "k" }}', [".a", 'get .a "k"']),
            ("{{ if .a }}{{ .b }}{{ else if .c }}{{ .d }}{{ end }}", [".b", ".d"]),
            ("{{ with .a }}{{ . }}{{ end }}", ["."]),
            ("{{ range $k, $v := .a }}{{ $v }}{{ end }}", ["$v"]),
            ("{{ .a | default 1 }}", [".a | default 1"]),
            ("{{ default .b .a }}", ["default .b .a"]),
            ("{{ coalesce .a .b | quote }}", ["coalesce .a .b", "coalesce .a .b | quote"]),
            ("{{ and .a .a.b }}", ["and .a .a.b"]),
            ("{{ eq .a 1 }}", ["eq .a 1"]),
            ("{{ $x := .a }}", []),
            ("{{ $x = .a | quote }}", [".a"]),
            ('{{ $_ := set .a "k" .b }}', []),
            ('{{ include "t" .a }}', ['include "t" .a']),
            ('{{ include "t" (dict "a" .a) }}', ['include "t" (dict "a" .a)']),
            ('{{ template "t" .a }}', []),
            ('{{ block "t" .a }}{{ .b }}{{ end }}', [".b"]),
            ('{{ define "t" }}{{ .b }}{{ end }}', [".b"]),
            ("{{/* .a */}}{{- /* }} .b */ -}}", []),
            ('{{ "}} .a" }}{{ `{{ .b }}` }}', []),
            ("{{ break }}{{ continue }}{{ else }}{{ end }}", []),
            ("{{ .a   -}}  x", [".a"]),
            ("{{ 1 }}{{ -2 }}{{- 3 -}}{{ 0x1F }}{{ 'x' }}{{ true }}", ["true"]),
            ("{{ .a.b\n  | quote\n}}", [".a.b", ".a.b\n  | quote"]),
        ],
    )  # fmt: skip
    def test_expressions(self, text: str, values: list[str]) -> None:
        assert examined(text) == values

    def test_missing_key_of_get_is_detected(self) -> None:
        assert 'if not (hasKey .a "k")' in with_checks('{{ get .a "k" }}')[0]
        assert 'if not (hasKey .a ("k"))' in with_checks('{{ "k" | get .a }}')[0]

    def test_tpl_is_rejected_in_every_position(self) -> None:
        for text in ("\n{{ tpl .a . }}", "\n{{ if (tpl .a . | quote) }}{{ end }}", "\n{{ .a | tpl }}"):
            with pytest.raises(RefusedFunctionError) as caught:
                with_checks(text)
            assert caught.value.line == 2

    def test_field_named_tpl_is_allowed(self) -> None:
        assert examined("{{ .tpl }}") == [".tpl"]


class TestCheckedTemplate:
    @given(
        st.lists(
            st.sampled_from(["{{ .a | quote }}", "\n", "x", "{{- $y -}}", "{{ if .z }}", "{{ end }}", "{{/* c */}}"])
        )
    )
    def test_template_keeps_its_text_between_the_checks(self, parts: list[str]) -> None:
        text = "".join(parts)

        checked, checks = with_checks(text)

        inserted = re.compile(
            r'\{\{ if kindIs "invalid" \([^)]*\) \}\}\{\{ fail "missing-value-\d+\." \}\}\{\{ end \}\}'
        )
        assert inserted.sub("", checked) == text
        assert len(inserted.findall(checked)) == len(checks)

    def test_check_names_its_line_and_the_remedy(self) -> None:
        _, checks = with_checks("a: 1\n{{/* two\nlines */}}\nhost: {{ .Cluster.spec.host | quote }}\n")

        assert described(checks[0], "overwrite.yaml") == (
            "overwrite.yaml:4: {{ .Cluster.spec.host | quote }}: .Cluster.spec.host has no value; "
            'guard it with {{ if }}, or write {{ .Cluster.spec.host | default "..." }}'
        )

    @pytest.mark.parametrize(
        "text", ["{{ .a", "{{ ( }}", "{{ ) }}", "{{ .a | }}", "{{ | }}", "{{ ; }}", "{{/* c }}", "{{ (.a }}"]
    )
    def test_invalid_action_is_never_skipped(self, text: str) -> None:
        with pytest.raises(UnreadableActionError):
            with_checks(f"\n{text}")

    @given(st.text(alphabet='{} .a|()"`$:=-/*\n', max_size=30))
    def test_arbitrary_text_is_parsed_or_rejected(self, text: str) -> None:
        with contextlib.suppress(UnreadableActionError):
            assert all(action.start < action.end <= len(text) for action in actions(text))
