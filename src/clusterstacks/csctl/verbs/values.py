"""``csctl values``: print the merged values of the addons of a Cluster, and where each value comes from."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    management_options,
    read_cluster_context,
)
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.deliver.render.values_document import helm_values, merge_values
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs

    Layers = Sequence[tuple[str, Mapping[str, Any]]]


@click.command(short_help="Print the values of the addons of a Cluster.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@click.option("--addon", metavar="NAME", default="", help="Print only this addon.")
@management_options
@form_option()
def values(cluster: ObjectKey, addon: str, management: ManagementCluster, releases: Path | None, form: str) -> None:
    """Print the values with which the addons of a Cluster are rendered, and where each value comes from.

    Values of the Cluster (addonValues) replace those that the template of the release (overwrite.yaml) renders, and
    these replace the defaults of the chart; those of its subcharts are not shown. csctl downloads the releases from the
    sources of the ClusterStacks, with your rights on their Secrets, unless --releases contains them. Values of Secrets
    are printed.
    """
    found = output.run_counted(_read(management, cluster, addon, releases))
    if form != TEXT:
        output.print_document([_document(*one) for one in found], form)
        return
    for name, release, layers in found:
        output.say(f"addon {name} of release {release}", bold=True)
        rows = [(key, json.dumps(value), source) for key, (value, source) in origins(layers).items()]
        output.print_table(("KEY", "VALUE", "FROM"), rows)


def _document(addon: str, release: str, layers: Layers) -> dict[str, Any]:
    return {
        "addon": addon,
        "release": release,
        "values": reduce(merge_values, (values for _, values in layers)),
        "from": {key: source for key, (_, source) in origins(layers).items()},
    }


def origins(layers: Layers) -> dict[str, tuple[Any, str]]:
    """Return each value of merged layers by its path (``image.tag``), with the name of the layer that set it last."""
    merged = reduce(merge_values, (values for _, values in layers))
    return {
        ".".join(key.replace(".", r"\.") for key in path): (
            value,
            next(source for source, values in reversed(layers) if _has(values, path)),
        )
        for path, value in _leaves(merged)
    }


def _leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in sorted(values.items()):
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _has(values: object, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True


async def _read(
    management: ManagementCluster, cluster: ObjectKey, addon: str, releases: Path | None
) -> list[tuple[str, str, Layers]]:
    """Return the name, the release and the layers of values of each addon."""
    from clusterstacks.csctl.shared.upgrade_impact import impact_reader

    async with management.connected() as client:
        context = await read_cluster_context(client, cluster, releases)
        async with impact_reader(client, releases) as reader:
            inputs = await reader.inputs(context)
            addons = inputs.releases.addons()
            if addon and addon not in addons:
                raise SpecError(
                    "AddonUnknown", f"Cluster {cluster} has no addon {addon} (its addons: {', '.join(addons)})"
                )
            chosen = [addon] if addon else addons
            return [(name, str(inputs.release_name(name)), await _layers(inputs, name)) for name in chosen]


async def _layers(inputs: AddonInputs, addon: str) -> Layers:
    from clusterstacks.deliver.render.default_nulls import VALUES
    from clusterstacks.model import yaml
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import VARIABLE, cluster_values
    from clusterstacks.release.charts.chart import read_chart

    chart = inputs.chart(addon)
    defaults = yaml.load(read_chart(chart.chart, addon).get(VALUES, b""), name=f"{VALUES} of {inputs.label(addon)}")
    return [
        (f"{VALUES} of the chart", defaults if isinstance(defaults, dict) else {}),
        (f"{chart.values_name} of the release", helm_values(await inputs.release_values(chart))),
        (f"{VARIABLE} of the Cluster", cluster_values(addon, inputs.snapshot.cluster.raw) or {}),
    ]
