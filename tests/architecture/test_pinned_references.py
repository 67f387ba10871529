"""What the project takes from others has a commit, a digest or a hash that the project holds, or a reason here."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools.uv_requirement import requirement

ROOT = Path(__file__).parents[2]

COMMIT = r"@(?:[0-9a-f]{40}\b|COMMIT\b)"
"""``COMMIT`` is what pages tell the reader to replace."""
DIGEST = r"@sha256:[0-9a-f]{64}\b"
NEVER = r"(?!)"
REFERENCES = {
    "action": (r"^ *(?:- )?uses: *[\w.:-]+/\S+", COMMIT),
    "hooks of a repository": (r"^ *rev: *\S+", r"rev: *(?:[0-9a-f]{40}\b|COMMIT\b)"),
    "hook that pre-commit installs": (r"^ *language: *(?!system\b|script\b)\w+", NEVER),
    "base image": (r"^FROM\s+.+|^# syntax=.+", rf"{DIGEST}|^FROM scratch$"),
    "image": (r"^ *(?:- )?image: *[^\s#{]\S*:\S+|\b(?:docker|podman|crictl|ctr) (?:image )?(?:pull|run)\s.+", DIGEST),
    "Python packages": (r"\b(?:pip|pipx|uv tool|uv pip)3? (?:install|run|sync)\s.+|\buvx\s.+", r"--require-hashes"),
    "project with its lock": (r"\buv (?:sync|run|export|add)\s.+", r"--(?:locked|frozen)\b"),
    "build of the project": (r"\buv (?:sync --locked --active|build)\s.+|_uv\(\"build\".+", r"--no-build-isolation"),
    "packages of a system": (r"\b(?:apt-get|apt|apk|dnf|yum|brew) (?:install|add)\s.+|(?<=\")mmdebstrap\"?,.+", NEVER),
    "packages of a language": (r"\b(?:go install|npm install|npx|gem install|cargo install)\s.+", NEVER),
    "download": (r"\b(?:curl|wget)\s.+|\burlopen\(.+|\burlretrieve\(.+|HTTPClient\(retries=.+", NEVER),
    "file of a branch": (
        r"https://(?:raw\.githubusercontent|github)\.com/[^/\s]+/[^/\s]+/(?:archive/|raw/|refs/heads/)*(?:HEAD|main|master)\b",
        NEVER,
    ),
    "newest release": (r"https://[\w./-]{1,200}/releases/latest/", NEVER),
}
"""Kinds of references: how to find one in a line, and what it contains if its content cannot change."""

OWN_INDEX = "a user's choice of index and versions; docs/how-to/install-csctl.md names the way with hashes beside it"
SIGNED = "apt verifies the packages with the keys of Debian; those of the image are in its SBOM with their hashes"
OWN_SCHEMA = "an identifier of our own schema; editors read it for completion, and nothing runs by it"
COMPUTES_HASH = "a command that computes the hash that is missing"
ALLOWED = {
    (".ci/requirements", "packages of a system"): SIGNED,
    ("docs/how-to/build-the-image.md", "packages of a system"): SIGNED,
    ("tools/image/debian.py", "packages of a system"): SIGNED,
    (".pre-commit-hooks.yaml", "hook that pre-commit installs"): "pre-commit itself calls pip, which takes no hashes",
    ("README.md", "Python packages"): OWN_INDEX,
    ("deploy/krew.py", "Python packages"): OWN_INDEX,
    ("deploy/krew/clusterstacks.yaml", "Python packages"): OWN_INDEX,
    ("deploy/krew/kubectl-clusterstacks", "Python packages"): OWN_INDEX,
    ("docs/how-to/install-csctl.md", "Python packages"): OWN_INDEX,
    ("docs/how-to/run-the-operator.md", "Python packages"): OWN_INDEX,
    ("docs/reference/features.md", "Python packages"): OWN_INDEX,
    ("docs/reference/local-control-plane.md", "packages of a language"): "the page says that it does not work",
    ("src/clusterstacks/csctl/authoring/rules/data_files.py", "download"): COMPUTES_HASH,
    ("docs/how-to/publish-node-images.md", "download"): COMPUTES_HASH,
    ("deploy/install.yaml", "image"): "replaced by the digest in the registry of the user, as the page about it says",
    ("deploy/clusterctl/addon-components.yaml", "image"): "as deploy/install.yaml",
    ("src/clusterstacks/dev/envtest_archives.py", "download"): "compared with the checksums beside it",
    ("src/clusterstacks/csctl/authoring/file_schemas.py", "file of a branch"): OWN_SCHEMA,
}
"""References whose content may change, by file and kind, and why each of them is acceptable."""

EXAMPLES = re.compile(r"tests/|examples/|benchmarks/|schemas/|docs/how-to/use-an-editor\.md|uv\.lock|.*go\.(?:mod|sum)")
"""Fixtures and examples, whose images do not exist; identifiers of schemas; files that hold hashes themselves."""


def mutable(text: str) -> set[str]:
    """Return the kinds of references in a text whose content may change."""
    return {
        kind
        for kind, (found, pinned) in REFERENCES.items()
        for line in re.findall(found, text, re.MULTILINE)
        if not re.search(pinned, line)
    }


def texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for path in listed.split("\0") if path and not EXAMPLES.match(path) and (ROOT / path).is_file()]
    return {path: (ROOT / path).read_text(errors="replace").replace("\\\n", "") for path in paths}


@pytest.mark.regression("SEC-39")
def test_all_references_are_pinned_or_have_a_reason() -> None:
    found = {(path, kind) for path, text in texts().items() for kind in mutable(text)}

    assert found - ALLOWED.keys() == set(), "pin these by commit, digest or hash, or add them with a reason"
    assert ALLOWED.keys() - found == set(), "these reasons are not needed any more"


@pytest.mark.regression("SEC-39")
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    - uses: actions/setup-python@v5", "action"),
        ("  - uses: OWNER/cluster-stacks@main", "action"),
        ("    rev: main", "hooks of a repository"),
        ("FROM docker.io/library/python:3.13-slim-trixie", "base image"),
        ("FROM ${RUNTIME}", "base image"),
        ("# syntax=docker/dockerfile:1", "base image"),
        ("        image: registry.k8s.io/pause:3.10", "image"),
        ('python -m pip install --quiet "uv==0.13.9"', "Python packages"),
        ('- run: pip install --quiet "$GITHUB_ACTION_PATH"', "Python packages"),
        ("uv sync --no-dev", "project with its lock"),
        ('_uv("build", "--wheel", PROJECT)', "build of the project"),
        ("curl -sSfL https://example.org/install.sh | sh", "download"),
        (
            'INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/x.yaml"',
            "file of a branch",
        ),
        ("kubectl apply -f https://github.com/a/b/releases/latest/download/x.yaml", "newest release"),
        ("go install example.org/program@latest", "packages of a language"),
    ],
)
def test_a_mutable_reference_is_found(line: str, kind: str) -> None:
    assert mutable(line) == {kind}


@pytest.mark.parametrize(
    "line",
    [
        f"    - uses: actions/checkout@{'0a' * 20}  # v7.0.1",
        f"    rev: {'0a' * 20}",
        f"FROM docker.io/library/debian@sha256:{'0a' * 32}",
        f"  image: registry.example.org/operator:0.1.0@sha256:{'0a' * 32}",
        "  image: {{ .Values.image }}",
        "python -m pip install --only-binary :all: --require-hashes -r requirements.txt",
        "uv sync --locked --only-group site",
        f"https://raw.githubusercontent.com/kubernetes/website/{'0a' * 20}/data/eol.yaml",
    ],
)
def test_a_reference_with_a_hash_is_accepted(line: str) -> None:
    assert mutable(line) == set()


@pytest.mark.regression("SEC-39")
def test_what_builds_the_project_is_in_the_lock_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locked = {
        f"{package['name']}=={package['version']}"
        for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
        if package.get("wheels")
    }

    assert set(project["build-system"]["requires"]) <= locked
    assert set(project["build-system"]["requires"]) <= set(project["dependency-groups"]["build"])


@pytest.mark.regression("SEC-39")
def test_uv_itself_is_installed_by_the_hashes_of_the_lock_file() -> None:
    line = requirement((ROOT / "uv.lock").read_text())

    assert re.fullmatch(r"uv==\S+(?: --hash=sha256:[0-9a-f]{64}){10,}", line)
