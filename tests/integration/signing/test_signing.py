"""Signatures and keys, compared with the openssl command line, and the two verbs."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from clusterstacks.release.signing.envelope import PAYLOAD_TYPE, pae
from clusterstacks.release.signing.keys import parse_private_key, parse_public_keys
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.running.csctl import csctl_run

if TYPE_CHECKING:
    from pathlib import Path

ALGORITHMS = {
    "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "ed25519": ["-algorithm", "ED25519"],
}

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed")


def openssl(*arguments: object) -> str:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def csctl(*arguments: object, password: str = "") -> subprocess.CompletedProcess[str]:
    return csctl_run(*arguments, environ={**os.environ, "CSCTL_KEY_PASSWORD": password})


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "releases" / STAGED.release, staged_release())


@pytest.fixture(params=ALGORITHMS)
def key(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A key pair made by openssl: the path of the private key, and beside it one of the public key in .pub."""
    path = tmp_path / f"{request.param}.pem"
    openssl("genpkey", *ALGORITHMS[request.param], "-out", path)
    openssl("pkey", "-in", path, "-pubout", "-out", f"{path}.pub")
    return path


@needs_openssl
def test_openssl_verifies_signatures_of_csctl(release: Path, key: Path, tmp_path: Path) -> None:
    assert csctl("sign", release, "--key", key).returncode == 0
    envelope = json.loads((release.parent / f"{STAGED}.dsse.json").read_text())
    message, signature = tmp_path / "message", tmp_path / "signature"
    message.write_bytes(pae(PAYLOAD_TYPE, b64decode(envelope["payload"])))
    signature.write_bytes(b64decode(envelope["signatures"][0]["sig"]))

    if "ecdsa" in key.name:
        told = openssl("dgst", "-sha256", "-verify", f"{key}.pub", "-signature", signature, message)
    else:
        told = openssl(
            "pkeyutl", "-verify", "-pubin", "-inkey", f"{key}.pub", "-rawin", "-in", message, "-sigfile", signature
        )

    assert told.lower().replace("signature ", "").startswith("verified")


@needs_openssl
def test_keyid_is_the_fingerprint_computed_by_openssl(key: Path, tmp_path: Path) -> None:
    openssl("pkey", "-pubin", "-in", f"{key}.pub", "-outform", "DER", "-out", tmp_path / "der")
    digest = openssl("dgst", "-sha256", "-r", tmp_path / "der").split()[0]

    (public,) = parse_public_keys(key.with_name(f"{key.name}.pub").read_bytes(), name="x")

    assert public.fingerprint == digest == parse_private_key(key.read_bytes(), name="x").public.fingerprint


@needs_openssl
def test_csctl_verifies_signatures_of_openssl(key: Path, tmp_path: Path) -> None:
    message, signature = tmp_path / "message", tmp_path / "signature"
    message.write_bytes(b"message")
    if "ecdsa" in key.name:
        openssl("dgst", "-sha256", "-sign", key, "-out", signature, message)
    else:
        openssl("pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", message, "-out", signature)

    (public,) = parse_public_keys(key.with_name(f"{key.name}.pub").read_bytes(), name="x")

    assert public.verifies(b"message", signature.read_bytes())
    assert not public.verifies(b"massage", signature.read_bytes())


@needs_openssl
def test_encrypted_key_of_openssl_needs_its_password(release: Path, key: Path) -> None:
    protected = key.with_suffix(".protected")
    openssl("pkcs8", "-topk8", "-in", key, "-out", protected, "-passout", "pass:secret")

    without, wrong, right = (
        csctl("sign", release, "--key", protected, password=word) for word in ("", "gu3ss", "secret")
    )

    assert (without.returncode, wrong.returncode, right.returncode) == (2, 2, 0)
    assert "set its password in CSCTL_KEY_PASSWORD" in without.stderr
    assert "the password is wrong" in wrong.stderr
    assert "gu3ss" not in wrong.stderr


def test_password_is_prompted_on_a_terminal_without_echo(release: Path, tmp_path: Path) -> None:
    csctl("sign", "--new-key", tmp_path / "k", password="secret")
    terminal, end = pty.openpty()
    prompt = f"password of {tmp_path / 'k'}: "
    with subprocess.Popen(
        [sys.executable, "-m", "clusterstacks.csctl.main", "sign", str(release), "--key", str(tmp_path / "k")],
        env={name: value for name, value in os.environ.items() if name != "CSCTL_KEY_PASSWORD"},
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # without a terminal of its own, it asks the one on standard input
    ) as asking:
        assert asking.stderr
        asked = asking.stderr.read(len(prompt))
        os.write(terminal, b"secret\n")  # not before: what was typed ahead is thrown away
        out, rest = asking.communicate(timeout=60)
    os.close(terminal)
    os.close(end)

    assert (asking.returncode, asked) == (0, prompt), asked + rest
    assert "secret" not in out + rest


@needs_openssl
def test_key_in_the_old_format_is_rejected_with_the_conversion_command(release: Path, tmp_path: Path) -> None:
    openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", tmp_path / "old.pem")

    refused = csctl("sign", release, "--key", tmp_path / "old.pem")

    assert refused.returncode == 2
    assert "convert it with 'openssl pkcs8 -topk8'" in refused.stderr


@needs_openssl
def test_new_encrypted_key_opens_in_openssl(tmp_path: Path) -> None:
    assert csctl("sign", "--new-key", tmp_path / "k", password="secret").returncode == 0

    assert (
        openssl("pkey", "-in", tmp_path / "k", "-passin", "pass:secret", "-pubout") == (tmp_path / "k.pub").read_text()
    )


def test_release_signed_by_two_keys_is_verified_by_either(release: Path, tmp_path: Path) -> None:
    for name in ("old", "new", "other"):
        assert csctl("sign", "--new-key", tmp_path / name).returncode == 0
    for name in ("old", "new"):
        made = csctl("sign", release, "--key", tmp_path / name)
        assert made.stdout.startswith(f"{STAGED} signed by {tmp_path / name} (")
        assert csctl("sign", release, "--key", tmp_path / name).stdout.startswith(f"{STAGED} was signed before by")

    one = csctl("verify", release, "--key", tmp_path / "other.pub", "--key", tmp_path / "new.pub")
    both = csctl("verify", f"{release}/", "--key", tmp_path / "old.pub", "--key", tmp_path / "new.pub", "-o", "json")
    none = csctl("verify", release, "--key", tmp_path / "other.pub", "-o", "json")

    assert (one.returncode, one.stdout.splitlines()[0]) == (0, f"{STAGED} is signed by {tmp_path / 'new.pub'}")
    assert json.loads(both.stdout)["signedBy"] == [str(tmp_path / "old.pub"), str(tmp_path / "new.pub")]
    assert (none.returncode, json.loads(none.stdout)["signedBy"]) == (3, [])
    assert "ask its publisher" in none.stderr


def test_changed_release_is_reported_with_the_changed_file(release: Path, tmp_path: Path) -> None:
    csctl("sign", "--new-key", tmp_path / "k")
    csctl("sign", release, "--key", tmp_path / "k")
    (release / "hashes.json").write_bytes(b"{}")

    changed = csctl("verify", release, "--key", tmp_path / "k.pub")

    assert (changed.returncode, changed.stdout) == (3, "")
    assert "it is for other files: 'hashes.json' changed" in changed.stderr


def test_invalid_release_is_not_signed(release: Path, tmp_path: Path) -> None:
    csctl("sign", "--new-key", tmp_path / "k")
    (release / "metadata.yaml").unlink()

    refused = csctl("sign", release, "--key", tmp_path / "k")

    assert refused.returncode == 2
    assert "metadata.yaml" in refused.stderr
    assert not (release.parent / f"{STAGED}.dsse.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [[], ["x"], ["--key", __file__], ["--new-key", "/nowhere/k", "--key", __file__]],
)
def test_incomplete_command_line_is_rejected(arguments: list[str]) -> None:
    refused = csctl("sign", *arguments)

    assert refused.returncode == 2
    assert "expected RELEASE_DIR or REF with --key, or --new-key" in refused.stderr
