from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model import yaml
from clusterstacks.model.yaml import YamlError, dump, load, load_all
from tests.support.observing.cpu_time import no_stall

SCALARS: list[tuple[str, Any]] = [
    ("yes", True),
    ("Yes", True),
    ("YES", True),
    ("y", True),
    ("Y", True),
    ("on", True),
    ("true", True),
    ("n", False),
    ("No", False),
    ("OFF", False),
    ("oN", "oN"),
    ("tRue", "tRue"),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("NULL", None),
    ("nULL", "nULL"),
    ("", None),
    ("0", 0),
    ("+5", 5),
    ("-5", -5),
    ("1_000", 1000),
    ("0644", 420),
    ("-0644", -420),
    ("0o644", 420),
    ("0O17", 15),
    ("0_", 0),
    ("0b101", 5),
    ("0b2", "0b2"),
    ("0x1F", 31),
    ("0X1F", 31),
    ("0x_", "0x_"),
    ("08", 8),
    ("08.5", 8.5),
    ("1e3", 1000),
    ("1.", 1),
    ("1.0", 1),
    (".5", 0.5),
    ("-.5", -0.5),
    (".", "."),
    ("1e", "1e"),
    ("1e400", "1e400"),
    ("1e21", 1e21),
    ("9223372036854775807", 9223372036854775807),
    ("18446744073709551615", 18446744073709551615),
    ("123456789012345678901234567890", 1.2345678901234568e29),
    ("22:22", "22:22"),
    ("190:20:30", "190:20:30"),
    ("2024-01-01", "2024-01-01"),
    ("2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z"),
    ("=", "="),
    ("1,000", "1,000"),
    ("inf", "inf"),
    ('"yes"', "yes"),
    ("'0644'", "0644"),
    ("!!str 5", "5"),
    ('!!int "5"', 5),
    ("!!float 5", 5),
    ("!!bool yes", True),
]


class TestScalars:
    """Plain scalars mean what sigs.k8s.io/yaml makes of them."""

    @pytest.mark.parametrize(("text", "value"), SCALARS)
    def test_scalar_is_read_as_in_kubernetes(self, text: str, value: Any) -> None:
        read = load(f"a: {text}\n")["a"]

        assert (read, type(read)) == (value, type(value))

    @pytest.mark.parametrize("text", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
    def test_infinity_and_nan_are_rejected_with_their_line(self, text: str) -> None:
        with pytest.raises(YamlError, match=r"line 2: .* cannot be expressed in JSON"):
            load(f"a: 1\nb: {text}\n")

    @pytest.mark.parametrize("text", ["!!int x", "!!float x", "!!bool 1", "!!null x"])
    def test_tag_with_unsuitable_text_is_rejected(self, text: str) -> None:
        with pytest.raises(YamlError, match="is no"):
            load(f"a: {text}")

    @pytest.mark.parametrize(
        "text", ["!local x", "!!binary aGk=", "!!set {x}", "!!omap [a: 1]", "!!python/name:os.system x"]
    )
    def test_unknown_tags_are_rejected(self, text: str) -> None:
        with pytest.raises(YamlError, match="not known to Kubernetes"):
            load(f"a: {text}")


class TestKeys:
    """Keys follow the same table and are strings in the end."""

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("y", "true"),
            ("off", "false"),
            ("0644", "420"),
            ("12", "12"),
            ("1.5", "1.5"),
            ("08", "8"),
            ("22:22", "22:22"),
        ],
    )
    def test_keys_become_strings(self, text: str, key: str) -> None:
        assert load(f"{text}: 1") == {key: 1}

    @pytest.mark.parametrize("text", ["1e6", "12345678.5", "1e-7", "100000000000000000000000"])
    def test_numeric_keys_with_an_exponent_are_rejected(self, text: str) -> None:
        with pytest.raises(YamlError, match="quote it"):
            load(f"{text}: 1")

    @pytest.mark.parametrize("text", ["~: 1", "null: 1", "? [a]\n: 1", "? {a: b}\n: 1"])
    def test_null_and_collections_are_rejected_as_keys(self, text: str) -> None:
        with pytest.raises(YamlError, match="quote it"):
            load(text)

    @pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "x: 1\n'1': 2\n1: 3", "x: 1\nyes: 2\n'true': 3"])
    def test_duplicate_key_is_rejected_with_its_line(self, text: str) -> None:
        with pytest.raises(YamlError, match=r"line 3: key '.*' is a duplicate"):
            load(text)

    def test_last_duplicate_wins_on_request(self) -> None:
        assert load_all("a: 1\nb: 2\na: 3", unique_keys=False) == [{"a": 3, "b": 2}]

    def test_own_keys_override_merged_keys_and_the_first_merged_mapping_wins(self) -> None:
        read = load("base: &b {x: 1, v: 1}\nmore: &m {v: 2, z: 2}\nall: {<<: [*b, *m], x: 3}\n")

        assert read["all"] == {"x": 3, "v": 1, "z": 2}

    def test_merged_keys_precede_own_keys_in_reverse_order_of_mappings(self) -> None:
        read = load("base: &b {x: 1, v: 1}\nmore: &m {v: 2, z: 2}\nall: {o: 1, <<: [*b, *m], <<: {w: 1}}\n")

        assert list(read["all"]) == ["w", "v", "z", "x", "o"]

    def test_quoted_merge_key_is_an_ordinary_key(self) -> None:
        assert load('"<<": 1') == {"<<": 1}

    def test_only_mappings_are_merged(self) -> None:
        with pytest.raises(YamlError, match="merge key"):
            load("a: {<<: 1}")


class TestDocuments:
    def test_every_document_is_read_and_an_empty_document_is_none(self) -> None:
        assert load_all("a: 1\n---\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, None, None, {"b": 2}]

    @pytest.mark.parametrize("text", ["", "# nothing\n", b""])
    def test_text_without_a_document_is_none(self, text: str | bytes) -> None:
        assert load(text) is None

    def test_second_document_is_rejected_where_one_is_expected(self) -> None:
        with pytest.raises(YamlError, match=r"stack\.yaml: contains 2 documents"):
            load("a: 1\n---\nb: 2\n", name="stack.yaml")

    def test_syntax_error_names_file_and_line(self) -> None:
        with pytest.raises(YamlError) as caught:
            load("a: 1\nb: c: d\n", name="metadata.yaml")

        assert caught.value.line == 2
        assert str(caught.value).startswith("metadata.yaml, line 2: ")

    def test_bytes_are_utf8(self) -> None:
        assert load("a: ü".encode()) == {"a": "ü"}
        with pytest.raises(YamlError, match="not UTF-8 at byte 3"):
            load(b"a: \xff")

    def test_control_characters_are_refused(self) -> None:
        with pytest.raises(YamlError, match="control characters"):
            load("a: \x00")

    def test_aliases_are_copies(self) -> None:
        read = load("a: &x {b: [1]}\nc: *x\n")
        read["a"]["b"].append(2)

        assert read["c"] == {"b": [1]}


class TestBounds:
    """Nothing hostile crashes the process, hangs it or fills its memory."""

    def test_text_above_the_size_limit_is_rejected(self) -> None:
        with pytest.raises(YamlError, match="larger than 10 bytes"):
            load("a" * 11, max_bytes=10)

    @pytest.mark.parametrize("levels", [yaml.MAX_DEPTH + 1, 5_000, 200_000])
    @pytest.mark.parametrize("level", ["[", "{a: ", "- ", "? "])
    def test_nesting_above_the_limit_is_rejected(self, level: str, levels: int) -> None:
        with pytest.raises(YamlError):
            load(level * levels + "1")

    @pytest.mark.parametrize("line_end", ["\r", "\n", "\x85", "\u2028", "\u2029", "\r\ufeff"])
    @pytest.mark.parametrize("level", ["- ", "? ", ": ", "- ? "])
    def test_nesting_on_one_line_is_rejected_after_any_line_break(self, line_end: str, level: str) -> None:
        with pytest.raises(YamlError):
            load(f"a:{line_end}{level * 100_000}")
        with pytest.raises(YamlError):
            load(line_end + level * 100_000)

    def test_deepest_text_that_skips_the_nesting_check_does_not_crash(self) -> None:
        blocks = "- " * (yaml._PLAIN_BLOCK - 1)
        flows = "[a: " * (yaml._PLAIN_FLOWS - 1)

        with pytest.raises(YamlError):
            load(f"{blocks}\n{' ' * 2 * (yaml._PLAIN_BLOCK - 1)}{flows}")

    def test_number_of_values_is_bounded(self) -> None:
        assert load("[a, b, {c: d}]", max_values=5) == ["a", "b", {"c": "d"}]
        with pytest.raises(yaml.YamlTooLarge, match="more than 4 values once its aliases are expanded"):
            load("[a, b, {c: d}]", max_values=4)

    @pytest.mark.parametrize(
        "text",
        [
            "[" + "[]," * 500 + "]",
            "- a\n" * 500,
            "{" + "a," * 500 + "}",
            ",".join("[{") * 500,
            "a:\n" * 500,
            "---\n" * 500,
        ],
    )
    def test_too_many_values_are_rejected_before_construction(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(yaml, "K8sLoader", None)

        with pytest.raises(YamlError):
            load(text, max_values=100)

    def test_empty_merges_cost_linear_time(self) -> None:
        keys = ", ".join(f"k{number}: 1" for number in range(5_000))

        with no_stall(1.0):
            read = load("a: &a {" + keys + "}\nb: {<<: [*a" + ", {}" * 5_000 + "]" + ", <<: {}" * 5_000 + "}")

        assert len(read["b"]) == 5_000

    def test_nesting_below_the_limit_is_read(self) -> None:
        levels = yaml.MAX_DEPTH - 1

        assert load("[" * levels + "]" * levels)

    def test_number_of_aliases_is_bounded(self) -> None:
        within = "a: &a x\nb: [" + "*a, " * yaml.MAX_ALIASES + "]"

        assert len(load(within)["b"]) == yaml.MAX_ALIASES
        with pytest.raises(YamlError, match="more than 100 aliases"):
            load(within.replace("*a, ", "*a, *a, ", 1))

    def test_asterisks_in_text_do_not_count_as_aliases(self) -> None:
        text = "a: |\n" + "  * point, *.example.com\n" * 300

        assert load(text)["a"].count("*") == 600

    @pytest.mark.parametrize("join", ["[%s]", "{<<: [%s]}"])
    def test_expansion_of_nested_aliases_is_bounded(self, join: str) -> None:
        bomb = "a0: &a0 {x: 1}\n" + "".join(
            f"a{level}: &a{level} {join % ', '.join([f'*a{level - 1}'] * 5)}\n" for level in range(1, 20)
        )

        with pytest.raises(YamlError, match="values once its aliases are expanded"):
            load(bomb)

    @pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}"])
    def test_recursive_alias_is_rejected(self, text: str) -> None:
        with pytest.raises(YamlError):
            load(text)

    @given(st.text(max_size=60))
    def test_arbitrary_text_raises_only_yaml_errors(self, text: str) -> None:
        with contextlib.suppress(YamlError):
            load_all(text)

    @given(st.text(alphabet="ab:-[]{}&*!|>'\"? \n<,~1#", max_size=40))
    def test_arbitrary_yaml_like_text_raises_only_yaml_errors(self, text: str) -> None:
        with contextlib.suppress(YamlError):
            load_all(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


class TestDump:
    @pytest.mark.parametrize("text", [text for text, _ in SCALARS if not text.startswith(("'", '"', "!"))])
    def test_string_that_looks_like_another_type_is_quoted(self, text: str) -> None:
        assert load(dump({text: text})) == {text: text}
        assert pyyaml.safe_load(dump([text])) == [text]

    def test_dump_uses_block_style_and_literal_text(self) -> None:
        document = {"b": [{"x": 1, "v": None}], "a": "first\nsecond\n", "empty": {}}

        assert dump(document) == "b:\n- x: 1\n  v: null\na: |\n  first\n  second\nempty: {}\n"

    def test_shared_parts_are_written_without_aliases(self) -> None:
        part = {"x": 1}

        assert dump([part, part]) == "- x: 1\n- x: 1\n"

    @given(JSON)
    def test_dumped_document_is_read_back_unchanged(self, document: Any) -> None:
        assert load(dump(document)) == document


class TestNodes:
    def test_nodes_have_positions(self) -> None:
        node = yaml.compose("a: 1\nb: [x]\n")

        assert node is not None
        assert [key.start_mark.line for key, _ in node.value] == [0, 1]

    def test_text_without_a_document_has_no_node(self) -> None:
        assert yaml.compose("# nothing\n") is None

    @pytest.mark.parametrize("text", ["a: [", "a: 1\n---\nb: 2\n", "- " * 100_000, "a:\r" + "- " * 100_000])
    def test_invalid_or_unbounded_text_gives_no_nodes(self, text: str) -> None:
        with pytest.raises(YamlError):
            yaml.compose(text)
