"""Untrusted text is parsed in known places: one YAML loader, and patterns in listed modules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "clusterstacks"

YAML_LOADER = "api/yaml.py"
"""The only module that lets PyYAML read; it bounds size, depth, aliases and values before anything is composed."""

YAML_NODES = {"Node", "MappingNode", "ScalarNode", "SequenceNode"}
"""What others may use of PyYAML: the types that ``api.yaml.compose`` returns."""

OBJECT = "a field of an object: 1.5 MiB of etcd"
DOCUMENT = "a file of a release: charts.chart.MAX_DOCUMENT_BYTES"
URL = "a URL: api.source._LOCATION_LENGTH in objects, charts.requirements.MAX_URL_CHARACTERS in charts"
HEADER = "a header: 8,190 bytes of aiohttp"
AUTHOR = "files of the author who runs the command"
MACHINE = "programs and files of the machine that runs the command"

PATTERNS = {
    "compat/facts_schema.py": DOCUMENT,
    "api/yaml.py": "a text that _bounded has let through: max_bytes; at most MAX_ALIASES matches are taken",
    "api/yaml_scalars.py": "a scalar of a text that api.yaml has bounded",
    "apply/health.py": "the patterns themselves, and labels of an object: kube.limits",
    "apply/messages.py": "2 * MATCHED_CHARACTERS of each of MATCHED_CAUSES causes",
    "apply/record_codec.py": "a text of a record: MAX_BYTES, and the patterns themselves",
    "apply/targets.py": "a manifest: render.helm_output.MAX_RENDERED",
    "authoring/scaffold.py": AUTHOR,
    "authoring/findings.py": AUTHOR,
    "authoring/infer_compat.py": AUTHOR,
    "authoring/stack.py": AUTHOR,
    "authoring/release_diff.py": AUTHOR,
    "authoring/rules/layout.py": AUTHOR,
    "authoring/rules/rendering.py": f"{AUTHOR}; a template: MAX_TEMPLATE_BYTES",
    "authoring/rules/source_files.py": AUTHOR,
    "authoring/rules/stages.py": AUTHOR,
    "cli/copy.py": "an argument of the command line",
    "cli/shared/terminal.py": "what is printed; words, without backtracking",
    "devcluster/contract_labels.py": MACHINE,
    "devcluster/demo/ranges_scenario.py": MACHINE,
    "devcluster/go_build.py": MACHINE,
    "devcluster/toolchain.py": MACHINE,
    "devcluster/state_directory.py": MACHINE,
    "domain/addon_config.py": DOCUMENT,
    "http/allowlist.py": f"patterns of the operator's flags, and {URL}",
    "apply/record_store.py": "the name of an addon: MAX_NAME",
    "domain/documents.py": OBJECT,
    "domain/errors.py": "a message of ours; a literal",
    "domain/names.py": "a part of an object's or file's name: 253 characters",
    "domain/ranges.py": "MAX_CHARACTERS",
    "domain/semver.py": "MAX_VERSION_CHARACTERS, MAX_CONSTRAINT_CHARACTERS",
    "domain/versions.py": "MAX_CHARACTERS",
    "kube/partial_json.py": "an answer of an API server: kube.limits; possessive, so linear",
    "kube/failure_status.py": "a failure answer: kube.transport.MAX_FAILURE_BYTES; repetitions are bounded",
    "building/packaging.py": AUTHOR,
    "building/settings.py": AUTHOR,
    "building/source_tree.py": AUTHOR,
    "devcluster/node/cluster_api_deployment.py": "the manifests of the pinned Cluster API module",
    "charts/repository.py": "an index: MAX_INDEX_BYTES",
    "charts/resolve.py": URL,
    "charts/chart_cache.py": "a digest; a pattern of 71 characters",
    "sources/downloads.py": "a digest; a pattern of 71 characters",
    "sources/github/api_documents.py": HEADER,
    "sources/github/rest_api.py": URL,
    "charts/helmignore.py": "MAX_RULES rules of a file, and names of files: archive.MAX_NAME_BYTES",
    "releases/chart_store.py": "a file name: 255 bytes",
    "oci/authorization.py": "MAX_CHARACTERS",
    "oci/blob_download.py": HEADER,
    "oci/credential_helpers.py": "a name in the docker configuration: MAX_CONFIG_BYTES",
    "oci/session.py": HEADER,
    "oci/reference.py": URL,
    "oci/blob_upload.py": HEADER,
    "charts/requirements.py": DOCUMENT,
    "signing/keys.py": "MAX_KEY_BYTES",
    "signing/statement.py": "a digest; a pattern of 64 characters",
    "releases/store.py": "a digest or file name; patterns of 71 characters",
    "charts/lockfile.py": OBJECT,
    "kube/pipeline.py": "paths and headers of our own requests; one set of characters each",
    "render/helm_output.py": "a rendered text: MAX_RENDERED; linear",
    "render/cel.py": "an expression: render.renderer.MAX_EXPRESSION; in a worker with a deadline",
    "render/gotemplate.py": "a message of Helm, in a worker with a deadline",
    "render/template_syntax.py": "a file of a release, in a worker with a deadline",
}
"""Modules that use regular expressions, and what bounds the length of their input."""


@cache
def modules() -> dict[str, ast.AST]:
    """Return the syntax trees of all modules."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_bytes()) for path in sorted(SOURCE.rglob("*.py"))}


def imports(tree: ast.AST, library: str) -> tuple[set[str], set[str]]:
    """Return the names a module gives to a library, and what it imports from it."""
    names, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.asname or library for one in node.names if one.name.split(".")[0] == library}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == library:
            parts |= {one.name for one in node.names}
    return names, parts


def used(tree: ast.AST, library: str) -> set[str]:
    """Return what a module uses of a library, by name."""
    names, parts = imports(tree, library)
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
    ["import yaml as pyyaml\nisinstance(a, pyyaml.Node)", "from clusterstacks.api import yaml\nyaml.load('a')"],
)
def test_node_types_and_our_own_loader_are_fine(source: str) -> None:
    assert not used(ast.parse(source), "yaml") - YAML_NODES
