"""The garbage collector and other controllers of Kubernetes on an API server, for one test."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.dev import binaries
from clusterstacks.dev.kube_components import Components, controller_manager
from clusterstacks.dev.processes import start_on_free_port
from clusterstacks.dev.state_directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer


@contextmanager
def garbage_collector(
    server: ApiServer, directory: Path, controllers: str = "garbage-collector-controller"
) -> Iterator[None]:
    """Run kube-controller-manager with only these controllers; they know the kinds served at their start."""
    components = Components(StateDirectory(directory), binaries.resolve(["kube-controller-manager"]))
    process = start_on_free_port(lambda port: controller_manager(components, server, port, (controllers,)))
    try:
        yield
    finally:
        process.stop(timedelta(0))
