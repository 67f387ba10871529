from __future__ import annotations

import random

import pytest

from clusterstacks.deliver.render import helm_output as module
from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.deliver.render.helm_output import INSTALL_ORDER, documents, hooks, manifests, repetitions


def text(kind: str, name: str, hook: str = "") -> str:
    annotations = f', annotations: {{"helm.sh/hook": "{hook}"}}' if hook else ""
    return f"---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}{annotations}}}\n"


def names(rendered: dict[str, str]) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in manifests(rendered)]


class TestOrder:
    """CRDs, then objects in the install order of Helm, then hooks; within a kind by file and position."""

    def test_kinds_follow_the_install_order_of_helm(self) -> None:
        kinds = [*INSTALL_ORDER, "Aardvark", "Zebra"]
        documents = [text(kind, kind.lower()) for kind in kinds if not kind.endswith("List")]
        random.Random(1).shuffle(documents)

        found = manifests({"c/templates/a.yaml": "".join(documents)})

        assert [manifest["kind"] for manifest in found] == [kind for kind in kinds if not kind.endswith("List")]

    def test_objects_of_one_kind_are_ordered_by_file_and_position(self) -> None:
        files = {
            "c/templates/b.yaml": text("Pod", "third"),
            "c/templates/a.yaml": text("Pod", "one") + text("Pod", "again"),
        }

        assert names(files) == ["one", "again", "third"]

    def test_install_and_upgrade_hooks_come_last(self) -> None:
        files = {
            "c/templates/hook.yaml": text("Job", "hook", "pre-install, post-upgrade")
            + text("ServiceAccount", "account", "pre-install"),
            "c/templates/test.yaml": text("Pod", "test", "test"),
            "c/templates/end.yaml": text("Job", "end", "pre-delete,post-rollback"),
            "c/templates/z.yaml": text("Zebra", "last"),
        }

        assert names(files) == ["last", "account", "hook"]

    @pytest.mark.parametrize("hook", ["crd-install", "pre-install,nonsense", "test-failure"])
    def test_objects_with_unknown_hooks_are_left_out_as_helm_does(self, hook: str) -> None:
        assert names({"c/templates/a.yaml": text("Pod", "a", hook)}) == []

    def test_crds_come_first(self) -> None:
        found = manifests(
            {"c/templates/a.yaml": text("Namespace", "a")}, [("crds/x.yaml", text("CustomResourceDefinition", "x"))]
        )

        assert [manifest["metadata"]["name"] for manifest in found] == ["x", "a"]


class TestDocuments:
    def test_notes_partials_and_empty_documents_are_left_out(self) -> None:
        files = {
            "c/templates/NOTES.txt": "Thank you: for {{ nothing",
            "c/charts/sub/templates/NOTES.txt": "- 1",
            "c/templates/_helpers.tpl": "- 1",
            "c/templates/empty.yaml": "\n---\n# only words\n---\n",
            "c/templates/a.yaml": text("Pod", "a"),
        }

        assert names(files) == ["a"]

    def test_lists_are_replaced_by_their_items(self) -> None:
        item = "{apiVersion: v1, kind: Pod, metadata: {name: %s}}"
        nested = "{apiVersion: v1, kind: List, items: [%s]}" % (item % "inner")

        assert names({"c/templates/a.yaml": f"apiVersion: v1\nkind: List\nitems: [{item % 'outer'}, {nested}]"}) == [
            "outer",
            "inner",
        ]

    def test_items_of_a_typed_list_may_omit_their_kind(self) -> None:
        found = manifests({"c/a.yaml": "apiVersion: v1\nkind: SecretList\nitems: [{metadata: {name: a}}]"})

        assert found == [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}]

    def test_last_duplicate_key_wins(self) -> None:
        assert names({"c/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}"}) == ["b"]

    def test_kind_with_the_suffix_list_but_without_items_stays(self) -> None:
        assert names({"c/a.yaml": text("AllowList", "a")}) == ["a"]

    @pytest.mark.parametrize(
        ("document", "complaint"),
        [
            ("- 1", "document 2: is a list instead of an object"),
            ("just text", "document 2: is text instead of an object"),
            ("a: b: c", r"c/templates/a.yaml \(rendered\), line 6"),
            ("kind: Pod\nmetadata: {name: a}", "document 2: has no apiVersion"),
            ("apiVersion: v1\nmetadata: {name: a}", "document 2: has no kind"),
            ("apiVersion: v1\nkind: Pod", "document 2: has no metadata.name"),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}",
                "document 2: metadata.generateName is not supported, .*: write metadata.name",
            ),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: 5}", "document 2: has no metadata.name"),
            ("apiVersion: v1\nkind: Pod\nmetadata: []", "document 2: has no metadata.name"),
            ("apiVersion: v1\nkind: List\nitems: [1]", "document 2, item 1: is a number"),
        ],
    )
    def test_render_error_names_file_and_document(self, document: str, complaint: str) -> None:
        with pytest.raises(RenderFailed, match=complaint) as caught:
            manifests({"c/templates/a.yaml": text("Pod", "fine") + "---\n" + document})

        assert "c/templates/a.yaml" in str(caught.value)


class TestSeparators:
    """Documents are split as by ``SplitManifests`` of Helm; a test with the command compares the result with it."""

    @pytest.mark.regression("CASE-01")
    @pytest.mark.parametrize(
        "separator",
        ["---", "--- ", "---\t", "---\n  ", "\n\n---\n\n", "---\r\n", "--- # a\n", "---\n---\n", "---\n# a\n---"],
    )
    def test_every_document_behind_a_separator_is_an_object(self, separator: str) -> None:
        one, two = (text("Pod", name).removeprefix("---\n") for name in ("one", "two"))

        assert names({"c/a.yaml": f"{one}{separator}{two}"}) == ["one", "two"]
        assert names({"c/a.yaml": f" \n {separator}{one}{separator}{two}{separator}"}) == ["one", "two"]
        assert repetitions({"c/a.yaml": f"{one}{separator}{two}"}) == []

    @pytest.mark.regression("CASE-01")
    def test_separator_inside_of_a_block_scalar_counts_only_at_the_beginning_of_a_line(self) -> None:
        document = f"{text('ConfigMap', 'a')}data:\n  a: |\n    x\n    ---\n    y\n  b: |\n    z\n"
        (found,) = manifests({"c/a.yaml": document})
        two = manifests({"c/a.yaml": f"{document}---{text('ConfigMap', 'b')}"})

        assert found["data"] == {"a": "x\n---\ny\n", "b": "z\n"}
        assert [(one["metadata"]["name"], one.get("data")) for one in two] == [("a", found["data"]), ("b", None)]

    @pytest.mark.parametrize("behind", ["", "---", "---\n", f"---{text('Pod', 'b')[4:]}"])
    def test_empty_lines_before_a_separator_belong_to_the_block_scalar(self, behind: str) -> None:
        rendered = f"{text('ConfigMap', 'a')}data:\n  a: |+\n    x\n\n\n{behind}"
        (found,) = (one for one in manifests({"c/a.yaml": rendered}) if one["kind"] == "ConfigMap")

        assert found["data"] == {"a": "x\n\n\n"}

    def test_first_line_of_a_document_may_be_indented(self) -> None:
        assert names({"c/a.yaml": f"\n  {text('Pod', 'a')[4:]}---\n  {text('Pod', 'b')[4:]}"}) == ["a", "b"]

    @pytest.mark.parametrize("before", ["", "\n \n", "---\n", "--- # words\n---\n", "\n---\n\n\n"])
    def test_error_names_the_line_of_the_rendered_text(self, before: str) -> None:
        rendered = f"{before}{text('Pod', 'a')[4:]}\n\n---{text('Pod', 'b')[4:]}---\n\na: b: c\n"
        line = 1 + rendered[: rendered.index("a: b: c")].count("\n")

        with pytest.raises(RenderFailed, match=rf"c/a.yaml \(rendered\), line {line}:"):
            manifests({"c/a.yaml": rendered})

    def test_aliases_and_values_of_all_documents_of_a_file_are_bounded_together(self) -> None:
        document = "---a: &a [1]\nb: [*a, *a]\n"

        with pytest.raises(RenderFailed, match="has more than 100 aliases"):
            manifests({"c/a.yaml": document * 60})

    @pytest.mark.parametrize("blank", ["\n", " ", "\n---"])
    def test_long_text_without_objects_is_read_in_linear_time(self, blank: str) -> None:
        assert manifests({"c/a.yaml": f"{blank * 100_000}\n---{blank * 100_000}"}) == []


class TestBounds:
    def test_characters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_RENDERED", 10)

        with pytest.raises(RenderFailed, match="more than the limit of 10 characters"):
            manifests({"c/templates/a.yaml": "#" * 11})

    def test_objects(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_OBJECTS", 1)

        with pytest.raises(RenderFailed, match="2 objects, more than the limit of 1"):
            manifests({"c/templates/a.yaml": text("Pod", "a") + text("Pod", "b")})


class TestExamination:
    def test_every_hook_is_listed_with_its_use(self) -> None:
        rendered = {
            "c/templates/b.yaml": text("Pod", "b", "test") + text("Pod", "plain"),
            "c/templates/a.yaml": text("Job", "a", "post-install,test") + text("Pod", "c", "crd-install"),
        }

        assert hooks(rendered) == [
            ("c/templates/a.yaml", "Job", "a", "post-install,test", "applied"),
            ("c/templates/a.yaml", "Pod", "c", "crd-install", "unknown"),
            ("c/templates/b.yaml", "Pod", "b", "test", "left out"),
        ]

    def test_ignored_hook_may_be_an_invalid_object(self) -> None:
        rendered = {"c/a.yaml": "metadata: {annotations: {helm.sh/hook: test}}\n"}

        assert manifests(rendered) == []
        assert hooks(rendered) == [("c/a.yaml", "?", "?", "test", "left out")]

    def test_every_object_knows_its_file(self) -> None:
        found = documents({"c/templates/b.yaml": text("Pod", "b"), "c/templates/a.yaml": text("Service", "a")})

        assert [(one.path, one.manifest["kind"]) for one in found] == [
            ("c/templates/a.yaml", "Service"),
            ("c/templates/b.yaml", "Pod"),
        ]

    def test_list_items_have_the_file_of_the_list(self) -> None:
        listed = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n"

        assert [one.path for one in documents({"c/templates/a.yaml": listed})] == ["c/templates/a.yaml"]

    def test_duplicate_key_is_reported_and_the_last_one_is_used(self) -> None:
        rendered = {"c/templates/a.yaml": f"{text('ConfigMap', 'a')}data: {{}}\ndata: {{a: b}}\n"}

        assert manifests(rendered)[0]["data"] == {"a": "b"}
        assert repetitions(rendered) == [("c/templates/a.yaml", "key 'data' is a duplicate")]

    def test_notes_and_partials_are_not_checked(self) -> None:
        assert repetitions({"c/templates/NOTES.txt": "a: 1\na: 2\n", "c/templates/_a.tpl": "a: 1\na: 2\n"}) == []
