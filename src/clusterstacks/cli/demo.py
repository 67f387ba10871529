"""``csctl demo``: the main job from nothing to a running, upgraded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output

if TYPE_CHECKING:
    from clusterstacks.devcluster.demo.scenario import Story

ENVIRONMENT = "demo"
"""Name of the environment the demo runs in; one of the user's own is not touched."""


@click.command(short_help="Show the main job on a local environment.")
@click.option("--keep", is_flag=True, help="Leave everything running at the end, to look around.")
def demo(*, keep: bool) -> None:
    """Start an environment, bring a release to a cluster with its addons, upgrade it, and clean up.

    Everything is real: etcd, API servers, Cluster API's core manager, the operator. Only nodes are missing, so no pod
    runs.
    """
    import asyncio

    from clusterstacks.cli.picture import LivePicture
    from clusterstacks.devcluster import supervisor, teardown
    from clusterstacks.devcluster.demo.scenario import Scenario
    from clusterstacks.devcluster.environment import EnvironmentSettings
    from clusterstacks.devcluster.state import state_directory

    state = state_directory(ENVIRONMENT)
    report = output.progress()
    report("starting the local environment")
    supervisor.detach(EnvironmentSettings(state=state), report)
    try:
        with LivePicture() as picture:
            story = asyncio.run(Scenario(state, state.releases, picture.say, picture.show).play())
        _summarise(story)
    finally:
        if not keep:
            teardown.down(state, report)
    if keep:
        _say_what_next()
    else:
        output.say("\nEverything is removed again; 'csctl demo --keep' leaves it running to look around.")


def _summarise(story: Story) -> None:
    changes = story.changes
    output.say(f"\nAll {story.objects} addon objects were read back from the workload API server.")
    output.say(f"The upgrade from {story.first} to {story.second}:")
    for title, objects in (
        ("created", changes.created),
        ("changed", changes.changed),
        ("removed", changes.removed),
    ):
        for line, text in enumerate([str(identity) for identity in objects] or ["nothing"]):
            output.say(f"  {'' if line else title:8} {text}")
    output.say(f"  {'left':8} {len(changes.untouched)} objects exactly as they were")
    steps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in story.seconds.items())
    output.say(f"Time: {steps}")


def _say_what_next() -> None:
    csctl, name = output.program(), f"--name {ENVIRONMENT}"
    output.say(
        "\nTo look further:\n"
        f"  {csctl} dev kubectl {name} get clusterstacks,clusterstackreleases,clusters,clusteraddons\n"
        f"  {csctl} dev kubectl {name} describe clusteraddon cluster-addon-first\n"
        f"  {csctl} dev kubectl {name} --cluster default/first get all --all-namespaces\n"
        f"  {csctl} dev logs {name} operator\n"
        f"  {csctl} dev down {name}"
    )
