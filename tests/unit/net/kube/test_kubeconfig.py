"""Accepted and rejected kubeconfigs, and their error messages."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.connection import DataOrFile
from clusterstacks.net.kube.kubeconfig import (
    context_names,
    default_connection,
    in_cluster,
    load_kubeconfig,
    parse_kubeconfig,
    parse_secret_kubeconfig,
)
from clusterstacks.net.kube.pki import Authority

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

AUTHORITY = Authority.create("test")
PAIR = AUTHORITY.issue("somebody")
ORIGIN = "Secret default/prod-kubeconfig"


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def kubeconfig(cluster: Manifest | None = None, user: Manifest | None = None, name: str = "one") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"in-{name}"}}],
        "current-context": name,
    }


def written(path: Path, document: Manifest) -> Path:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    user = {"client-certificate": "pki/a.crt", "client-key": "/abs/a.key", "tokenFile": "token"}
    path = written(tmp_path / "config", kubeconfig({"certificate-authority": "ca.crt"}, user))

    connection = load_kubeconfig([path])

    assert connection.server == "https://one.example:6443"
    assert connection.namespace == "in-one"
    assert connection.ca == DataOrFile(file=tmp_path / "ca.crt")
    assert connection.user.certificate == DataOrFile(file=tmp_path / "pki/a.crt")
    assert connection.user.key == DataOrFile(file=Path("/abs/a.key"))
    assert connection.user.token == DataOrFile(file=tmp_path / "token")


def test_of_several_files_the_first_to_name_an_entry_wins(tmp_path: Path) -> None:
    first = kubeconfig(user={"token": "first"})
    del first["current-context"], first["contexts"]
    second = kubeconfig({"server": "https://ignored.example"}, {"token": "ignored"})
    third = kubeconfig(name="three")
    files = [written(tmp_path / str(number), one) for number, one in enumerate((first, second, third))]

    connection = load_kubeconfig([tmp_path / "missing", *files])

    assert connection.server == "https://one.example:6443"
    assert connection.user.token == DataOrFile(b"first")
    assert load_kubeconfig(files, "three").server == "https://three.example:6443"


def test_inline_content_has_precedence_over_files_and_token_file_over_token() -> None:
    cluster = {"certificate-authority": "/nowhere", "certificate-authority-data": encoded(AUTHORITY.certificate)}
    user = {"token": "fixed", "tokenFile": "/token"}

    connection = parse_kubeconfig(kubeconfig(cluster, user), base=None)

    assert connection.ca == DataOrFile(AUTHORITY.certificate)
    assert connection.user.token == DataOrFile(file=Path("/token"))


def test_plugin_is_read_with_its_cluster_info() -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "./bin/login",
        "args": ["get-token"],
        "env": [{"name": "STAGE", "value": "prod"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": "install login",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    cluster = {"extensions": [extension], "certificate-authority-data": encoded(AUTHORITY.certificate)}

    found = parse_kubeconfig(kubeconfig(cluster, {"exec": plugin}), base=Path("/etc/kube")).user.plugin

    assert found is not None
    assert (found.command, found.arguments, found.environ) == ("/etc/kube/bin/login", ("get-token",), {"STAGE": "prod"})
    assert found.cluster == {
        "server": "https://one.example:6443",
        "certificate-authority-data": encoded(AUTHORITY.certificate),
        "config": {"audience": "me"},
    }


def test_impersonation_is_honoured() -> None:
    user = {"token": "t", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"Team/Name": ["x"]}}

    assert parse_kubeconfig(kubeconfig(user=user), base=None).user.impersonation == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-team%2Fname", "x"),
    )


BROKEN: dict[str, tuple[Manifest, Manifest, str]] = {
    "no server": ({"server": None}, {}, "clusters[0].cluster.server is not a valid URL (expected https://host:port"),
    "server without scheme": ({"server": "one:6443"}, {}, "clusters[0].cluster.server is not a valid URL"),
    "server with a password": ({"server": "https://a:b@one"}, {}, "clusters[0].cluster.server is not a valid URL"),
    "port out of range": ({"server": "https://one:99999"}, {}, "clusters[0].cluster.server is not a valid URL"),
    "no base64": ({"certificate-authority-data": "?"}, {}, "certificate-authority-data is not valid base64"),
    "no certificate": ({"certificate-authority-data": "AAAA"}, {}, "contains no valid PEM certificates"),
    "socks proxy": ({"proxy-url": "socks5://p"}, {}, "clusters[0].cluster.proxy-url must begin with http"),
    "flag as text": ({"insecure-skip-tls-verify": "yes"}, {}, "insecure-skip-tls-verify is neither true nor false"),
    "token as list": ({}, {"token": ["t"]}, "users[0].user.token is not a string"),
    "token with newline": ({}, {"token": "a\nb"}, "users[0].user.token contains invalid characters"),
    "two ways in": ({}, {"token": "t", "username": "u", "password": "p"}, "cannot be combined with a token"),
    "certificate alone": ({}, {"client-certificate": "/a"}, "users[0].user.client-key-data is missing"),
    "key alone": ({}, {"client-key": "/a"}, "users[0].user.client-certificate-data is missing"),
    "auth-provider": ({}, {"auth-provider": {"name": "gcp"}}, "users[0].user.auth-provider is no longer supported"),
    "old exec": ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "exec.apiVersion must be one"),
    "exec with terminal": (
        {},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "c", "interactiveMode": "Always"}},
        "exec.interactiveMode Always requires a terminal",
    ),
    "relative path": ({}, {"tokenFile": "token"}, "users[0].user.tokenFile must be an absolute path"),
}


@pytest.mark.parametrize(("cluster", "user", "message"), BROKEN.values(), ids=BROKEN)
def test_error_names_the_invalid_field(cluster: Manifest, user: Manifest, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_kubeconfig(kubeconfig(cluster, user), base=None)

    assert str(caught.value).startswith("kubeconfig: ")
    assert message in str(caught.value)


def test_certificate_and_key_that_do_not_fit_are_refused_before_use() -> None:
    other = AUTHORITY.issue("other")
    user = {"client-certificate-data": encoded(PAIR.certificate), "client-key-data": encoded(other.key)}

    with pytest.raises(SpecError, match="not a matching PEM pair"):
        parse_kubeconfig(kubeconfig(user=user), base=None)


def test_references_to_missing_entries_are_refused() -> None:
    for kind in ("contexts", "clusters", "users"):
        document = {**kubeconfig(), kind: []}
        with pytest.raises(SpecError, match=r"names .* that does not exist"):
            parse_kubeconfig(document, base=None)
    with pytest.raises(SpecError, match="has no context elsewhere"):
        parse_kubeconfig(kubeconfig(), base=None, context="elsewhere")
    with pytest.raises(SpecError, match="has no current-context"):
        parse_kubeconfig({**kubeconfig(), "current-context": ""}, base=None)
    twice = kubeconfig()
    twice["users"] *= 2
    with pytest.raises(SpecError, match=r"users\[1\] has the same name as another entry"):
        parse_kubeconfig(twice, base=None)


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no kubeconfig: .*/config does not exist"):
        load_kubeconfig([tmp_path / "config"])
    with pytest.raises(SpecError, match=r"kubeconfig .* cannot be read: Is a directory"):
        load_kubeconfig([tmp_path])


SECRET_USER = {"client-certificate-data": encoded(PAIR.certificate), "client-key-data": encoded(PAIR.key)}
SECRET_CLUSTER = {"certificate-authority-data": encoded(AUTHORITY.certificate)}


def secret(cluster: Manifest | None = None, user: Manifest | None = None) -> bytes:
    return yaml.safe_dump(kubeconfig({**SECRET_CLUSTER, **(cluster or {})}, {**SECRET_USER, **(user or {})})).encode()


def test_kubeconfig_of_cluster_api_is_accepted_from_a_secret() -> None:
    connection = parse_secret_kubeconfig(secret(), origin=ORIGIN)

    assert connection.user.certificate == DataOrFile(PAIR.certificate)
    assert connection.ca == DataOrFile(AUTHORITY.certificate)


def test_anchors_repeated_keys_and_utf_16_are_read_as_kubectl_does() -> None:
    text = secret().decode()
    anchored = text.replace("clusters:", "shared: &shared {tls-server-name: anchored}\nclusters:", 1).replace(
        "- cluster:\n", "- cluster:\n    <<: *shared\n", 1
    )
    assert "*shared" in anchored

    assert parse_secret_kubeconfig(anchored.encode(), origin=ORIGIN).server_name == "anchored"
    assert parse_secret_kubeconfig(f"current-context: x\n{text}".encode(), origin=ORIGIN).server
    assert parse_secret_kubeconfig(text.encode("utf-16"), origin=ORIGIN).server
    assert parse_secret_kubeconfig(b"\xef\xbb\xbf" + text.encode(), origin=ORIGIN).server


@pytest.mark.parametrize("token", ["y", "N", "019", "0644", "1e5", "1_000", "22:22", "2026-11-22", ".inf", "12", "2.5"])
def test_a_plain_token_keeps_its_spelling(token: str) -> None:
    text = yaml.safe_dump(kubeconfig(SECRET_CLUSTER, {"token": "TOKEN"})).replace("TOKEN", token)

    assert parse_secret_kubeconfig(text.encode(), origin=ORIGIN).user.token == DataOrFile(token.encode())


def test_a_kubeconfig_with_all_public_authorities_fits() -> None:
    many = AUTHORITY.certificate * (220_000 // len(AUTHORITY.certificate))

    assert parse_secret_kubeconfig(secret({"certificate-authority-data": encoded(many)}), origin=ORIGIN).ca.content


UNSAFE: dict[str, tuple[Manifest, Manifest, str]] = {
    "exec": ({}, {"exec": {"command": "sh"}}, "users[0].user.exec runs a command"),
    "auth-provider": ({}, {"auth-provider": {"name": "x"}}, "users[0].user.auth-provider runs a command"),
    "CA file": ({"certificate-authority": "/etc/shadow"}, {}, "certificate-authority reads a file"),
    "certificate file": ({}, {"client-certificate": "/etc/shadow"}, "client-certificate reads a file"),
    "key file": ({}, {"client-key": "/etc/shadow"}, "client-key reads a file"),
    "token file": ({}, {"tokenFile": "/etc/shadow"}, "users[0].user.tokenFile reads a file"),
    "proxy": ({"proxy-url": "http://evil"}, {}, "clusters[0].cluster.proxy-url uses a proxy"),
    "http": ({"server": "http://one:80"}, {}, "clusters[0].cluster.server must begin with https://"),
    "no verification": ({"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify trusts any server"),
}


@pytest.mark.parametrize(("cluster", "user", "message"), UNSAFE.values(), ids=UNSAFE)
def test_kubeconfig_from_a_secret_must_not_use_files_commands_or_proxies(
    cluster: Manifest, user: Manifest, message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        parse_secret_kubeconfig(secret(cluster, user), origin=ORIGIN)

    assert str(caught.value).startswith(f"{ORIGIN}: ")
    assert message in str(caught.value)
    assert "shadow" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"a: [hunter2", b"hunter2", b"\xff\xfehunter2", b"a: &a [*a, hunter2]", b"2001-99-99", b"- " * 10_000],
    ids=["empty", "list", "cut off", "text", "no UTF-8", "recursive", "bad date", "deep"],
)
def test_unreadable_secret_is_named_and_not_quoted(text: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        parse_secret_kubeconfig(text, origin=ORIGIN)

    assert str(caught.value).startswith(ORIGIN)
    assert "hunter2" not in str(caught.value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.dictionaries(
    st.sampled_from(
        ["server", "token", "tokenFile", "exec", "as", "as-groups", "certificate-authority-data", "username"]
    ),
    ANYTHING,
)


@given(FIELDS, FIELDS)
def test_fields_of_any_type_raise_only_spec_errors(cluster: Manifest, user: Manifest) -> None:
    try:
        parse_secret_kubeconfig(yaml.safe_dump(kubeconfig(cluster, user)).encode(), origin=ORIGIN)
    except SpecError as error:
        assert str(error).startswith(ORIGIN)  # noqa: PT017  # both ends are fine


def test_repr_contains_no_secret() -> None:
    user: dict[str, Any] = {
        **SECRET_USER,
        "token": "hunter2",
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "login",
            "args": ["--password=hunter2"],
            "env": [{"name": "PASSWORD", "value": "hunter2"}],
        },
    }
    connection = parse_kubeconfig(kubeconfig({"proxy-url": "http://me:hunter2@proxy"}, user), base=None)
    basic = parse_kubeconfig(kubeconfig(user={"username": "me", "password": "hunter2"}), base=None)

    text = repr((connection, basic))

    assert "hunter2" not in text
    assert "PRIVATE KEY" not in text


def test_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("mine\n")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    connection = in_cluster(tmp_path, environ)

    assert connection.server == "https://[fd00::1]:443"
    assert connection.namespace == "mine"
    assert connection.user.token == DataOrFile(file=tmp_path / "token")
    with pytest.raises(SpecError, match="not in a cluster"):
        in_cluster(tmp_path, {})


def test_flag_has_precedence_over_environment_and_home(tmp_path: Path) -> None:
    for name in ("flag", "listed", "home"):
        directory = tmp_path / ".kube" if name == "home" else tmp_path
        directory.mkdir(exist_ok=True)
        written(directory / ("config" if name == "home" else name), kubeconfig(name=name))
    environ = {"HOME": str(tmp_path), "KUBECONFIG": f":{tmp_path / 'missing'}:{tmp_path / 'listed'}"}

    assert default_connection(environ, str(tmp_path / "flag")).server == "https://flag.example:6443"
    assert default_connection(environ).server == "https://listed.example:6443"
    assert default_connection({"HOME": str(tmp_path)}).server == "https://home.example:6443"


def test_names_of_contexts_are_those_of_all_files_without_repetition(tmp_path: Path) -> None:
    for number, names in enumerate((["a", "b"], ["b", "c"])):
        contexts = [{"name": name, "context": {}} for name in names]
        (tmp_path / str(number)).write_text(yaml.safe_dump({"contexts": contexts}))
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump({"contexts": [{"name": "home", "context": {}}]}))
    environ = {"HOME": str(tmp_path), "KUBECONFIG": f"{tmp_path / '0'}:{tmp_path / '1'}"}

    assert context_names(environ) == ["a", "b", "c"]
    assert context_names(environ, str(tmp_path / "1")) == ["b", "c"]
    assert context_names({"HOME": str(tmp_path)}) == ["home"]
