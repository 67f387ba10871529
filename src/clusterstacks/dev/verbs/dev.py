"""``csctl dev``: run a management cluster and workload clusters on this machine, without containers."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import DIRECTORY, FILE, TEXT, form_option
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.dev.environment import EnvironmentSettings
    from clusterstacks.dev.inspection import ComponentState
    from clusterstacks.dev.state_directory import StateDirectory


@click.group(short_help="Run Cluster API and the operator on this machine.")
def dev() -> None:
    """Run Cluster API and the operator on this machine, as plain processes.

    Every Cluster with the templates LocalClusterTemplate and LocalControlPlaneTemplate gets a real kube-apiserver.
    """


def environment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --name and --state-dir; the command gets the state directory as its first argument."""

    @click.option(
        "--name",
        default="default",
        show_default=True,
        help="Name of the environment; several can run at the same time.",
    )
    @click.option(
        "--state-dir", type=click.Path(path_type=Path), help="Directory of its state, instead of one by name."
    )
    @functools.wraps(command)
    def with_state(name: str, state_dir: Path | None, **arguments: object) -> object:
        from clusterstacks.dev.state_directory import StateDirectory, state_directory

        state = StateDirectory(state_dir.absolute()) if state_dir else state_directory(name)
        return command(state, **arguments)

    return with_state


WORKLOADS, OPENSTACK = "workloads", "openstack"
with_option = click.option(
    "--with",
    "parts",
    type=click.Choice(["kubeadm", WORKLOADS, OPENSTACK]),
    multiple=True,
    help="kubeadm: also run the managers of KubeadmControlPlane, KubeadmConfig and their templates. workloads: "
    "simulate the Pods of workload clusters, so that Deployments become ready. openstack: run Keystone, Glance and the "
    "OpenStack Resource Controller, for node images. Repeatable.",
)


@dev.command(short_help="Start an environment.")
@environment_options
@click.option("--clusters-from", type=FILE, multiple=True, help="Apply this YAML file at the end; repeatable.")
@click.option("--detach", "-d", is_flag=True, help="Return when everything runs; 'csctl dev down' ends it.")
@click.option(
    "--no-operator", "operator", flag_value=False, default=True, help="Do not start the cluster-stack-operator."
)
@click.option(
    "--release-dir", "releases", type=DIRECTORY, help="Releases for the operator.  [default: 'releases' in the state]"
)
@click.option(
    "--default-rate-limits", "rate_limits", is_flag=True, help="Keep the rate limits of Cluster API, as in production."
)
@with_option
@click.option(
    "--crds",
    "definitions_from",
    type=DIRECTORY,
    multiple=True,
    help="Install the CRDs of the YAML files below this directory; repeatable.",
)
def up(
    state: StateDirectory,
    *,
    detach: bool,
    parts: tuple[str, ...],
    operator: bool,
    **settings_of_options: Any,  # noqa: ANN401 - options by name
) -> None:
    """Start an environment and run it until Ctrl-C, which ends it and removes everything.

    CRDs of other providers (--crds) make their kinds known, so that you can try cluster classes that use them. The
    providers do not run. Their conversion webhooks are removed, and API versions that need them are not served.
    """
    from clusterstacks.dev import supervisor
    from clusterstacks.dev.environment import EnvironmentSettings

    settings = EnvironmentSettings(
        state=state,
        operator=operator,
        providers=_providers(parts),
        workloads=WORKLOADS in parts,
        openstack=OPENSTACK in parts,
        **settings_of_options,
    )
    if detach:
        with output.counting():
            supervisor.detach(settings, output.progress())
        _say_what_next(settings, f"'csctl dev down{state.options}'")
    else:
        supervisor.run(settings, output.progress(), lambda: _say_what_next(settings, "Ctrl-C"))


def _providers(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in parts if part not in {WORKLOADS, OPENSTACK})


@dev.command(short_help="End an environment and remove its files.")
@environment_options
def down(state: StateDirectory) -> None:
    """End the environment, and remove all its processes and files."""
    from clusterstacks.dev import teardown

    if teardown.down(state, output.progress()):
        output.say(f"the environment in {state.root} is removed")
    else:
        output.say(f"there is no environment in {state.root}")


@dev.command(short_help="Show processes, ports and memory.")
@environment_options
@form_option()
def status(state: StateDirectory, form: str) -> int:
    """Show processes, versions, ports and memory. Exits with 1 unless everything runs."""
    from clusterstacks.dev import inspection

    seen = inspection.inspect(state)
    if seen is None:
        raise _no_environment(state)
    if form != TEXT:
        output.print_document(seen.document(), form)
        return 0 if seen.healthy else output.FAILED
    header = ("COMPONENT", "VERSION", "PORT", "PID", "MEMORY", "CPU", "STATE")
    marks = {one.state: ResultMark.GOOD if one.running else ResultMark.BAD for one in seen.components}
    output.print_table(header, [_row(component) for component in seen.components], marks=marks)
    memory = output.megabytes(sum(component.memory_bytes for component in seen.components))
    output.say("")
    judged = f"{seen.phase}: {seen.message}" if seen.message else seen.phase
    output.say_judged(ResultMark.GOOD if seen.healthy else ResultMark.BAD, judged)
    output.say(f"{memory} in total, state in {state.root}")
    output.say(inspection.WEBHOOK_NOTE)
    return 0 if seen.healthy else output.FAILED


@dev.command(short_help="Restart a component.")
@environment_options
@click.argument("component", metavar="[COMPONENT]", default="operator")
@click.option("--fresh-cache", is_flag=True, help="Empty the cache directory of the operator, as in a new pod.")
def restart(state: StateDirectory, component: str, *, fresh_cache: bool) -> None:
    """Restart a running or stopped component (default: the operator), and return when it is ready."""
    from clusterstacks.dev import restart as restarting

    if state.read() is None:
        raise _no_environment(state)
    restarting.ask(state, restarting.RestartRequest(component, fresh_cache))
    output.say(f"{component} was restarted{' with an empty cache' if fresh_cache else ''}")


@dev.command(short_help="Print a kubeconfig.")
@environment_options
@click.option(
    "--cluster", metavar="NAMESPACE/NAME", help="Use this workload cluster instead of the management cluster."
)
def kubeconfig(state: StateDirectory, cluster: str | None) -> None:
    """Print a kubeconfig; it contains the key of an administrator."""
    click.echo(_kubeconfig(state, cluster).read_text(), nl=False)


@dev.command(short_help="Print the log of a component.")
@environment_options
@click.argument("component", metavar="COMPONENT")
@click.option("--follow", "-f", is_flag=True, help="Print new lines until Ctrl-C.")
def logs(state: StateDirectory, component: str, *, follow: bool) -> None:
    """Print the log of a component of 'csctl dev status', for example operator or default/prod."""
    from clusterstacks.dev.state_directory import read_log

    for text in read_log(state, component, follow=follow):
        click.echo(text, nl=False)


@dev.command(
    short_help="Run kubectl in the environment.",
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
    },
)
@environment_options
@click.option(
    "--cluster", metavar="NAMESPACE/NAME", help="Use this workload cluster instead of the management cluster."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(state: StateDirectory, cluster: str | None, arguments: tuple[str, ...]) -> None:
    """Run kubectl in the environment.

    Options of csctl come first; everything else is passed to kubectl: csctl dev kubectl --name other get clusters.
    """
    from clusterstacks.dev import binaries

    path = _kubeconfig(state, cluster)
    program = binaries.resolve(["kubectl"], report=output.progress())["kubectl"].path
    os.execve(program, [str(program), *arguments], {**os.environ, "KUBECONFIG": str(path)})  # noqa: S606 - no shell


@dev.command(name="binaries", short_help="Find, download or build the programs.")
@with_option
def list_binaries(parts: tuple[str, ...]) -> None:
    """Find, download or build the programs of the environment, and show their paths."""
    from clusterstacks.dev import binaries, capi_managers, openstack, toolchain

    report = output.progress()
    managers = capi_managers.chosen(_providers(parts))
    if OPENSTACK in parts:
        managers += (capi_managers.ORC,)
        openstack.installed(report)
    programs = (*capi_managers.programs_of(managers), *(toolchain.WORKLOADS if WORKLOADS in parts else ()))
    found = binaries.resolve(programs, report=report)
    for manager in managers:
        capi_managers.manifests(manager, report=report)
    rows = [(binary.name, binary.version, binary.origin, binary.path) for binary in found.values()]
    output.print_table(("NAME", "VERSION", "ORIGIN", "PATH"), rows)


def _kubeconfig(state: StateDirectory, cluster: str | None) -> Path:
    if state.read() is None:
        raise _no_environment(state)
    if cluster is None:
        return state.kubeconfig
    namespace, _, name = cluster.rpartition("/")
    path = state.cluster_kubeconfig(namespace or "default", name)
    if not path.exists():
        raise SpecError(
            "ClusterNotFound",
            f"there is no workload cluster {namespace or 'default'}/{name} (yet); "
            f"'csctl dev status{state.options}' lists them",
        )
    return path


def _no_environment(state: StateDirectory) -> SpecError:
    return SpecError(
        "NoEnvironment", f"there is no environment in {state.root}; start one with 'csctl dev up{state.options}'"
    )


def _row(component: ComponentState) -> tuple[str, ...]:
    return (
        component.name,
        component.version,
        str(component.port or ""),
        str(component.pid),
        output.megabytes(component.memory_bytes) if component.running else "",
        f"{component.cpu_seconds:.1f} s" if component.running else "",
        component.state,
    )


def _say_what_next(settings: EnvironmentSettings, end: str) -> None:
    csctl, state = output.program(), settings.state
    if not settings.operator:
        output.say_lines("", "No operator runs: install its chart, or start it with the kubeconfig below.")
    if not settings.workloads:
        output.say_lines(
            "", "Nothing runs Pods here: Deployments stay unhealthy, unless --with workloads simulates Pods."
        )
    output.say_lines(
        "",
        "The environment runs. Next commands:",
        f"  {csctl} dev status{state.options}",
        f"  {csctl} dev kubectl{state.options} get clusters --all-namespaces",
        f"  export KUBECONFIG={state.kubeconfig}",
    )
    if settings.openstack:
        from clusterstacks.dev import openstack

        client, clouds = openstack.client(state)
        output.say(f"  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD={openstack.CLOUD}; {client} image list")
    output.say(f"{end} ends it and removes everything.")
