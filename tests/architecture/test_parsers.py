"""Untrusted text is parsed in known places: one YAML loader, and patterns in listed modules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "clusterstacks"

YAML_LOADER = "model/yaml.py"
"""The only module that lets PyYAML read; it bounds size, depth, aliases and values before anything is composed."""

YAML_NODES = {"Node", "MappingNode", "ScalarNode", "SequenceNode"}
"""What others may use of PyYAML: the types that ``model.yaml.compose`` returns."""

OBJECT = "a field of an object: 1.5 MiB of etcd"
DOCUMENT = "a file of a release: release.charts.chart.MAX_DOCUMENT_BYTES"
URL = "a URL: model.kinds.source._LOCATION_LENGTH in objects, release.charts.dependencies.MAX_URL_CHARACTERS in charts"
HEADER = "a header: 8,190 bytes of aiohttp"
AUTHOR = "files of the author who runs the command"
MACHINE = "programs and files of the machine that runs the command"

PATTERNS = {
    "model/files/facts.py": DOCUMENT,
    "model/yaml.py": "a text that _bounded has let through: max_bytes; at most MAX_ALIASES matches are taken",
    "model/yaml_scalars.py": "a scalar of a text that model.yaml has bounded",
    "deliver/apply/health.py": "the patterns themselves, and labels of an object: net.kube.limits",
    "deliver/apply/messages.py": "2 * MATCHED_CHARACTERS of each of MATCHED_CAUSES causes",
    "net/kube/errors.py": "a message of at most net.kube.failure_status.MAX_MESSAGE characters, and the request",
    "deliver/apply/record_codec.py": "a text of a record: MAX_BYTES, and the patterns themselves",
    "deliver/apply/source_objects.py": "a value of a ConfigMap or Secret: what is left of MAX_BYTES",
    "deliver/apply/targets.py": "a manifest: deliver.render.helm_output.MAX_RENDERED",
    "csctl/authoring/scaffold.py": AUTHOR,
    "csctl/authoring/findings.py": AUTHOR,
    "csctl/authoring/infer_compat.py": AUTHOR,
    "csctl/authoring/missing_values.py": "a message of Helm: deliver.render.errors.LONGEST_MESSAGE",
    "csctl/authoring/stack.py": AUTHOR,
    "csctl/authoring/template_syntax.py": AUTHOR,
    "csctl/authoring/release_diff.py": AUTHOR,
    "csctl/authoring/rules/layout.py": AUTHOR,
    "csctl/authoring/rules/rendering.py": f"{AUTHOR}; a template: MAX_TEMPLATE_BYTES",
    "csctl/authoring/rules/source_files.py": AUTHOR,
    "csctl/verbs/attest.py": "an argument of the command line",
    "csctl/verbs/copy.py": "an argument of the command line",
    "csctl/shared/upgrade_objects.py": "an argument of the command line",
    "csctl/shared/terminal.py": "what is printed; words, without backtracking",
    "dev/contract_labels.py": MACHINE,
    "dev/demo/ranges_scenario.py": MACHINE,
    "dev/go_build.py": MACHINE,
    "dev/toolchain.py": MACHINE,
    "dev/state_directory.py": MACHINE,
    "net/http/allowlist.py": f"patterns of the operator's flags, and {URL}",
    "deliver/apply/record_store.py": "the name of an addon: MAX_NAME",
    "model/documents.py": OBJECT,
    "model/errors.py": "a message of ours; a literal",
    "model/names.py": "the name of an object, tag or file: 253 characters; linear",
    "plan/compat/community_facts.py": "a value of a document: model.yaml.MAX_BYTES; repetitions are bounded",
    "model/files/definitions.py": "docstrings of this program",
    "model/files/node_images.py": "repetitions are bounded; model.yaml bounds documents",
    "model/ranges.py": "MAX_CHARACTERS",
    "model/semver.py": "MAX_VERSION_CHARACTERS, MAX_CONSTRAINT_CHARACTERS",
    "model/versions.py": "MAX_CHARACTERS",
    "model/kinds/shards.py": "a flag of the operator; a pattern of 30 characters",
    "net/kube/partial_json.py": "an answer of an API server: net.kube.limits; possessive, so linear",
    "net/kube/failure_status.py": "a failure answer: net.kube.transport.MAX_FAILURE_BYTES; repetitions are bounded",
    "csctl/building/output_directory.py": AUTHOR,
    "csctl/building/packaging.py": AUTHOR,
    "csctl/building/settings.py": AUTHOR,
    "csctl/building/source_tree.py": AUTHOR,
    "release/charts/repository.py": "an index: MAX_INDEX_BYTES",
    "release/charts/resolve.py": URL,
    "release/charts/chart_cache.py": "a digest; a pattern of 71 characters",
    "release/sources/downloads.py": "a digest; a pattern of 71 characters",
    "release/sources/github/api_documents.py": HEADER,
    "release/sources/github/rest_api.py": URL,
    "release/charts/helmignore.py": "MAX_RULES rules of a file, and names of files: archive.MAX_NAME_BYTES",
    "release/chart_store.py": "a file name: 255 bytes",
    "net/oci/authorization.py": "MAX_CHARACTERS",
    "net/oci/blob_download.py": HEADER,
    "operator/image_requests.py": "a path or header: 8,190 bytes of aiohttp; repetitions are bounded",
    "net/oci/credential_helpers.py": "a name in the docker configuration: MAX_CONFIG_BYTES",
    "net/oci/session.py": HEADER,
    "net/oci/reference.py": URL,
    "net/oci/blob_upload.py": HEADER,
    "release/charts/dependencies.py": DOCUMENT,
    "release/signing/keys.py": "MAX_KEY_BYTES",
    "release/signing/statement.py": "a digest; a pattern of 64 characters",
    "release/store.py": "a digest or file name; patterns of 71 characters",
    "release/charts/lockfile.py": OBJECT,
    "net/kube/pipeline.py": "paths and headers of our own requests; one set of characters each",
    "deliver/render/helm_output.py": "a rendered text: MAX_RENDERED; linear",
    "deliver/render/cel.py": "an expression: deliver.render.renderer.MAX_EXPRESSION; in a worker with a deadline",
}
"""Modules that use regular expressions, and what bounds the length of their input."""


@cache
def modules() -> dict[str, ast.AST]:
    """Return the syntax trees of all modules."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_bytes()) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def import_nodes(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Return the import statements of a module."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(tree: ast.AST, library: str) -> tuple[set[str], set[str]]:
    """Return the names a module gives to a library, and what it imports from it."""
    names, parts = set(), set()
    for node in import_nodes(tree):
        if isinstance(node, ast.Import):
            names |= {one.asname or library for one in node.names if one.name.split(".")[0] == library}
        elif node.level == 0 and (node.module or "").split(".")[0] == library:
            parts |= {one.name for one in node.names}
    return names, parts


def used(tree: ast.AST, library: str) -> set[str]:
    """Return what a module uses of a library, by name."""
    names, parts = imports(tree, library)
    if not names:
        return parts
    attributes = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
    }
    return attributes | parts


@pytest.mark.parametrize("library", ["yaml", "ruamel", "strictyaml", "oyaml"])
def test_yaml_is_read_by_one_loader(library: str) -> None:
    found = {module: used(tree, library) - YAML_NODES for module, tree in modules().items()}

    assert {module for module, names in found.items() if names} == ({YAML_LOADER} if library == "yaml" else set())


def test_patterns_are_used_where_the_length_of_their_input_is_bounded() -> None:
    found = {
        module for module, tree in modules().items() for one in ("re", "regex", "fnmatch") if any(imports(tree, one))
    }

    assert found == PATTERNS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "import yaml\nyaml.safe_load('a')",
        "import yaml as pyyaml\npyyaml.load('a', Loader=pyyaml.CSafeLoader)",
        "from yaml import safe_load",
        "from yaml.loader import SafeLoader",
        "import yaml\ndef f():\n    return yaml.parse",
        "def f():\n    import yaml\n    yaml.compose('a')",
    ],
)
def test_every_kind_of_yaml_reader_is_detected(source: str) -> None:
    assert used(ast.parse(source), "yaml") - YAML_NODES


@pytest.mark.parametrize(
    "source",
    ["import yaml as pyyaml\nisinstance(a, pyyaml.Node)", "from clusterstacks.model import yaml\nyaml.load('a')"],
)
def test_node_types_and_our_own_loader_are_fine(source: str) -> None:
    assert not used(ast.parse(source), "yaml") - YAML_NODES
