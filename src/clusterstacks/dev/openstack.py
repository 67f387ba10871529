"""Keystone and Glance (``csctl dev up --with openstack``): their Python environment, settings, processes and accounts.

They keep everything in SQLite and files. ``tools/openstack`` has the locked packages and the code that runs in their
environment; why the settings differ from the defaults: docs/reference/local-control-plane.md.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.binaries import cache_directory, silent
from clusterstacks.dev.loopback import LOOPBACK, answers_ok
from clusterstacks.dev.private_files import exclusive, private_directory, write_private
from clusterstacks.dev.processes import LOG_TAIL_BYTES, Command, Process
from clusterstacks.dev.toolchain import tool_modules
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.yaml import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clusterstacks.dev.kube_components import Components
    from clusterstacks.dev.state_directory import StateDirectory
    from clusterstacks.model.objects import Manifest

KEYSTONE, GLANCE = PROGRAMS = ("keystone", "glance")
CLOUD = "openstack"
"""Name of the Secret and of the cloud in it, as the stacks of SovereignCloudStack have them."""
CLOUDS = "clouds.yaml"
ADMIN, REGION = "admin", "RegionOne"
STEP_SECONDS = 600
"""Timeout of a step of the installation, which downloads 30 MB; arbitrary."""


def installed(report: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Path:
    """Return the Python environment of Keystone and Glance; install it if it is not in the cache.

    Raises:
        SpecError: uv is missing.
        DependencyError: A package cannot be installed.
    """
    lock = tool_modules() / CLOUD / "requirements.txt"
    cache = cache_directory(environ)
    venv = cache / f"openstack-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not _is_complete(venv):
        with exclusive(cache / ".lock", lambda: report(f"waiting for another run that installs programs in {cache}")):
            if not _is_complete(venv):
                report("installing Keystone and Glance from the Python package index (half a minute)")
                _install(lock, venv, environ)
    return venv


def _is_complete(venv: Path) -> bool:
    return (venv / "databases").is_dir() and (venv / "bin" / "python").exists()


def _install(lock: Path, venv: Path, environ: Mapping[str, str]) -> None:
    """Install the packages, and create the databases, which takes longer than copying them does later."""
    uv = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), environ.get("PATH", ""))))
    if uv is None:
        raise SpecError("UvMissing", "Keystone and Glance are installed with uv, which is not on PATH: install uv")
    system_certificates = {"UV_SYSTEM_CERTS": "1"}
    _run([uv, "venv", "--quiet", "--clear", f"--python={sys.executable}", str(venv)], system_certificates)
    packages = ("--require-hashes", f"--build-constraints={lock}", f"--requirements={lock}")
    install = ("pip", "install", "--quiet", "--no-config", "--compile-bytecode", f"--python={venv}")
    _run([uv, *install, *packages], system_certificates)
    staging = private_directory(venv / "databases.new")
    for name in PROGRAMS:
        _run([str(venv / "bin" / f"{name}-manage"), "db_sync"], {"OS_DATABASE__CONNECTION": _database(staging, name)})
        with sqlite3.connect(staging / f"{name}.db") as database:
            database.execute("PRAGMA journal_mode=WAL")
    staging.replace(venv / "databases")


def version(name: str) -> str:
    """Return the locked version of Keystone or Glance."""
    lines = (tool_modules() / CLOUD / "requirements.txt").read_text().splitlines()
    return next(f"v{line.split()[0].partition('==')[2]}" for line in lines if line.startswith(f"{name}=="))


def client(state: StateDirectory) -> tuple[Path, Path]:
    """Return the official client, and the clouds.yaml of an environment."""
    return installed(silent) / "bin" / "openstack", state.root / CLOUD / CLOUDS


@dataclass(frozen=True, slots=True)
class OpenStack:
    """Keystone and Glance of one environment."""

    bench: Components
    venv: Path
    passwords: Mapping[str, str] = field(
        default_factory=lambda: {user: secrets.token_urlsafe() for user in (ADMIN, CLOUD)}, repr=False
    )

    @property
    def directory(self) -> Path:
        """Directory of their settings, databases and images."""
        return self.bench.directory(CLOUD)

    @property
    def _keystone_settings(self) -> Path:
        return self.directory / "keystone.conf"

    def prepare(self) -> None:
        """Create the databases and the keys of tokens."""
        for name in PROGRAMS:
            content = (self.venv / "databases" / f"{name}.db").read_bytes()
            write_private(self.directory / f"{name}.db", content)
        for number in ("0", "1"):  # the next and the current one
            key = base64.urlsafe_b64encode(secrets.token_bytes(32))
            write_private(self.directory / "tokens" / number, key)

    def keystone(self, port: int) -> Process:
        """Return Keystone, of which nothing but its database knows the port."""
        settings: dict[str, Mapping[str, object]] = {
            "database": self._database(KEYSTONE),
            "fernet_tokens": {"key_repository": self.directory / "tokens"},
            "fernet_receipts": {"key_repository": self.directory / "tokens"},
            # Without a cache each authenticated call takes 0.2 s to 0.5 s.
            "cache": {"enabled": True, "backend": "dogpile.cache.memory"},
            "identity": {"password_hash_rounds": 4},
        }
        write_private(self._keystone_settings, _settings(settings))
        return self._process(KEYSTONE, port, "v3", {"OS_KEYSTONE_CONFIG_FILES": str(self._keystone_settings)})

    def glance(self, port: int, keystone_port: int) -> Process:
        """Return Glance with a store of files."""
        url, directory = f"http://{LOOPBACK}:{port}", self.directory / GLANCE
        settings: dict[str, Mapping[str, object]] = {
            "DEFAULT": {
                "public_endpoint": url,
                "worker_self_reference_url": url,
                "enabled_import_methods": "[glance-direct,web-download]",
                "enabled_backends": "files:file",
                "transport_url": "fake://",
            },
            "database": self._database(GLANCE),
            "glance_store": {"default_backend": "files"},
            "files": {"filesystem_store_datadir": directory / "images"},
            "os_glance_staging_store": {"filesystem_store_datadir": directory / "staging"},
            "os_glance_tasks_store": {"filesystem_store_datadir": directory / "tasks"},
            "keystone_authtoken": {"auth_type": "password", "interface": "public", **self._login(ADMIN, keystone_port)},
            "paste_deploy": {"flavor": KEYSTONE, "config_file": self.venv / "etc" / GLANCE / "glance-api-paste.ini"},
            "oslo_concurrency": {"lock_path": private_directory(directory / "lock")},
            "wsgi": {"python_interpreter": self.venv / "bin" / "python"},
        }
        # By default Glance downloads neither from the loopback address nor from ports except 80 and 443.
        downloads = {"allowed_hosts": f"[{LOOPBACK}]", "allowed_ports": "[]"}
        write_private(directory / "glance-api.conf", _settings(settings))
        write_private(directory / "glance-image-import.conf", _settings({"import_filtering_opts": downloads}))
        return self._process(GLANCE, port, "healthcheck", {"OS_GLANCE_CONFIG_DIR": str(directory)})

    def create_accounts(self, keystone_port: int, glance_port: int) -> None:
        """Create the administrator, the service catalog, and the user and project of the cloud; write clouds.yaml."""
        logins = {user: self._login(user, keystone_port) for user in (ADMIN, CLOUD)}
        clouds = {user: {"region_name": REGION, "auth": login} for user, login in logins.items()}
        write_private(self.directory / CLOUDS, dump({"clouds": {CLOUD: clouds[CLOUD]}}).encode())
        both = self.directory / ADMIN / CLOUDS
        write_private(both, dump({"clouds": clouds}).encode())
        manage = (str(self.venv / "bin" / "keystone-manage"), f"--config-file={self._keystone_settings}")
        catalog = (f"--bootstrap-region-id={REGION}", f"--bootstrap-public-url={logins[ADMIN]['auth_url']}")
        _run([*manage, "bootstrap", *catalog], {"OS_BOOTSTRAP_PASSWORD": logins[ADMIN]["password"]})
        accounts = [str(self.venv / "bin" / "python"), str(tool_modules() / CLOUD / "services.py")]
        environment = {"OS_CLIENT_CONFIG_FILE": str(both), "no_proxy": LOOPBACK}
        _run([*accounts, f"http://{LOOPBACK}:{glance_port}"], environment)

    def secret(self, namespace: str) -> Manifest:
        """Return the Secret with which the Images of a namespace reach the cloud."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": CLOUD, "namespace": namespace},
            "stringData": {CLOUDS: (self.directory / CLOUDS).read_text()},
        }

    def _login(self, user: str, keystone_port: int) -> dict[str, str]:
        return {
            "auth_url": f"http://{LOOPBACK}:{keystone_port}/v3",
            "username": user,
            "password": self.passwords[user],
            "project_name": user,
            "user_domain_id": "default",
            "project_domain_id": "default",
        }

    def _database(self, name: str) -> dict[str, object]:
        return {"connection": _database(self.directory, name), "sqlite_synchronous": False}

    def _process(self, name: str, port: int, path: str, environment: Mapping[str, str]) -> Process:
        program = str(self.venv / "bin" / "gunicorn")
        return Process(
            Command(
                name=name,
                argv=(program, "--config=python:services", f"--bind={LOOPBACK}:{port}", f"services:{name}()"),
                log=self.bench.state.log(name),
                ready=lambda: answers_ok(f"http://{LOOPBACK}:{port}/{path}"),
                environment={
                    **self.bench.environment,
                    **environment,
                    "PYTHONPATH": str(tool_modules() / CLOUD),
                    "PYTHONWARNINGS": "ignore",
                    "no_proxy": LOOPBACK,
                },
            )
        )


def _database(directory: Path, name: str) -> str:
    return f"sqlite:///{directory / name}.db?timeout=60"


def _settings(sections: Mapping[str, Mapping[str, object]]) -> bytes:
    """Write a configuration file of OpenStack."""
    lines = []
    for title, values in sections.items():
        lines += [f"[{title}]", *(f"{name} = {value}" for name, value in values.items())]
    return "\n".join([*lines, ""]).encode()


def _run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=STEP_SECONDS,
    )
    if done.returncode:
        tail = done.stdout[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        raise DependencyError("OpenStackFailed", f"'{' '.join(command)}' exited with {done.returncode}\n{tail}")
