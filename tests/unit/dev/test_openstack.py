from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from clusterstacks.dev import openstack
from clusterstacks.dev.kube_components import Components
from clusterstacks.dev.openstack import OpenStack
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.errors import DependencyError, SpecError


@pytest.fixture
def cloud(tmp_path: Path) -> OpenStack:
    databases = tmp_path / "venv" / "databases"
    databases.mkdir(parents=True)
    for name in openstack.PROGRAMS:
        (databases / f"{name}.db").write_bytes(b"")
    found = OpenStack(Components(StateDirectory(tmp_path / "state"), {}), tmp_path / "venv")
    found.prepare()
    return found


def settings_of(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.read(path)
    return found


def test_versions_are_those_of_the_lock() -> None:
    assert openstack.version("keystone") == "v30.0.0"
    assert openstack.version("glance") == "v33.0.0"


def test_glance_uses_this_keystone_and_may_download_from_the_loopback_address(cloud: OpenStack) -> None:
    glance = cloud.glance(20_002, keystone_port=20_001)

    directory = Path(glance.command.environment["OS_GLANCE_CONFIG_DIR"])
    login = settings_of(directory / "glance-api.conf")["keystone_authtoken"]
    assert login["auth_url"] == "http://127.0.0.1:20001/v3"
    assert login["password"] == cloud.passwords["admin"]
    downloads = settings_of(directory / "glance-image-import.conf")["import_filtering_opts"]
    assert dict(downloads) == {"allowed_hosts": "[127.0.0.1]", "allowed_ports": "[]"}
    assert "--bind=127.0.0.1:20002" in glance.command.argv


def test_passwords_are_in_private_files_and_not_in_command_lines(cloud: OpenStack) -> None:
    processes = (cloud.keystone(20_001), cloud.glance(20_002, 20_001))

    for password in cloud.passwords.values():
        assert password not in repr(cloud)
        assert all(password not in argument for process in processes for argument in process.command.argv)
    files = [path for path in cloud.directory.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_secret_of_the_images_has_no_administrator(cloud: OpenStack, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(openstack, "_run", lambda command, _: steps.append(command[0].rpartition("/")[2]))

    cloud.create_accounts(20_001, 20_002)

    assert steps == ["keystone-manage", "python"]
    secret = cloud.secret("default")["stringData"]["clouds.yaml"]
    assert cloud.passwords["openstack"] in secret
    assert cloud.passwords["admin"] not in secret


def test_missing_uv_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(SpecError, match="install uv"):
        openstack.installed(lambda _: None, {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)})


def test_failed_step_shows_the_end_of_its_output() -> None:
    with pytest.raises(DependencyError, match="exited with 3\nno such package"):
        openstack._run(["sh", "-c", "echo no such package; exit 3"], {})
