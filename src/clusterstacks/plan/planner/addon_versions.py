"""Versions of each addon, from releases and the cluster, and the upgrade rules between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.files.compatibility import Component, UpgradeRule, leading
from clusterstacks.model.semver import SemVer
from clusterstacks.plan.compat.constraints import upgrade_fact
from clusterstacks.plan.planner.model import ABSENT, Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.plan.compat.constraints import Judges
    from clusterstacks.plan.compat.world import Candidate
    from clusterstacks.plan.planner.equivalence import Moves


FREE = UpgradeRule(downgrade=True)
"""An upgrade rule without restrictions."""


def options_of(addon: str, candidates: Iterable[Candidate], installed: str | None) -> tuple[Option, ...]:
    """Collect the versions of an addon; releases that state the same of one share an option."""
    found: list[tuple[tuple[Component, ...], list[ReleaseName]]] = []
    for candidate in candidates:
        components = candidate.compatibility.of_addon(addon) if candidate.compatibility is not None else ()
        if not components:
            continue
        for known, releases in found:
            if known == components:
                releases.append(candidate.name)
                break
        else:
            found.append((components, [candidate.name]))
    options = [Option(leading(addon, known).text, known, tuple(releases)) for known, releases in found]
    if installed is not None and not any(_is(option, addon, installed) for option in options):
        options.append(Option(installed, (_stranger(addon, installed, options),)))
    return tuple(sorted(options, key=lambda one: (leading(addon, one.components).version, one.version, one.releases)))


def _stranger(addon: str, version: str, options: Sequence[Option]) -> Component:
    """Return the component of an installed version that no release has; only its name is known."""
    name = leading(addon, options[0].components).name if options else addon
    return Component(name, SemVer.parse(version), version.removeprefix("v"), addon)


def strangers(options: Iterable[Option]) -> list[Component]:
    """Return the installed components that no release has."""
    return [component for option in options if not option.releases for component in option.components]


def _is(option: Option, addon: str, version: str) -> bool:
    return leading(addon, option.components).version == SemVer.parse(version)


def providers(options: Mapping[str, Iterable[Option]]) -> dict[str, frozenset[str]]:
    """Return, by component, the addons that can install it."""
    found: dict[str, set[str]] = {}
    for addon, versions in options.items():
        for option in versions:
            for component in option.components:
                found.setdefault(component.name, set()).add(addon)
    return {name: frozenset(bringing) for name, bringing in found.items()}


def installed_option(addon: str, options: Sequence[Option], installed: str | None, release: ReleaseName) -> int:
    """Return the installed option; of several with the same version that of the class, else the newest."""
    if installed is None:
        return ABSENT
    same = [at for at, option in enumerate(options) if _is(option, addon, installed)]
    return next((at for at in same if release in options[at].releases), same[-1])


def wanted_options(addon: str, options: Sequence[Option], goal: Candidate | None) -> frozenset[int] | None:
    """Return the options with a release's version of an addon; None if any option is allowed."""
    stated = goal.compatibility if goal is not None else None
    if stated is None:
        return None
    components = stated.of_addon(addon)
    if not components:
        return frozenset({ABSENT})
    version = leading(addon, components).text
    return frozenset(at for at, option in enumerate(options) if _is(option, addon, version))


def option_moves(options: Sequence[Option], judges: Judges, wanted: frozenset[int] | None) -> Moves:
    """Return, by option, the options it may move to; the upgrade rule of the new version decides.

    An addon is installed or removed only if the target is a release that has it or does not have it.

    Args:
        options: The versions of one addon.
        judges: Decide which rules are enforced.
        wanted: The options it may end with; None for any.
    """
    offered = [at for at, option in enumerate(options) if option.releases]
    removed = (ABSENT,) if wanted == frozenset({ABSENT}) else ()
    brought = [{component.name: component.version for component in option.components} for option in options]
    ruled = [
        [one for one in option.components if judges.enforces(upgrade_fact(one)) and one.upgrade != FREE]
        for option in options
    ]

    def may_move(at: int, to: int) -> bool:
        before = brought[at]
        return all(one.name not in before or one.upgrade.allows(before[one.name], one.version) for one in ruled[to])

    moves = [tuple(to for to in offered if to != at and may_move(at, to)) + removed for at in range(len(options))]
    return (*moves, () if wanted is None or removed else tuple(offered))
