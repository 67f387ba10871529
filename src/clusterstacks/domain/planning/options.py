"""The versions each addon can have: from the releases that state them, and what is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.compatibility import Component, leading
from clusterstacks.domain.planning.model import ABSENT, Addon, Option
from clusterstacks.domain.semver import SemVer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.planning.model import Group
    from clusterstacks.domain.planning.world import Candidate


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
    """Describe an installed version that no release has: nothing but its name is known."""
    name = leading(addon, options[0].components).name if options else addon
    return Component(name, SemVer.parse(version), version.removeprefix("v"), addon)


def strangers(addons: Iterable[Addon]) -> list[Component]:
    """Return what is installed and in no release."""
    options = [option for addon in addons for option in addon.options if not option.releases]
    return [component for option in options for component in option.components]


def _is(option: Option, addon: str, version: str) -> bool:
    return leading(addon, option.components).version == SemVer.parse(version)


def providers(addons: Iterable[Addon]) -> dict[str, frozenset[str]]:
    """Return, by component, the addons that can bring it."""
    found: dict[str, set[str]] = {}
    for addon in addons:
        for option in addon.options:
            for component in option.components:
                found.setdefault(component.name, set()).add(addon.name)
    return {name: frozenset(bringing) for name, bringing in found.items()}


def installed_option(addon: Addon, installed: Mapping[str, str], release: ReleaseName) -> int:
    """Return the option that is installed; of several with the same version the class's own, else the newest's."""
    if addon.name not in installed:
        return ABSENT
    same = [at for at, option in enumerate(addon.options) if _is(option, addon.name, installed[addon.name])]
    return next((at for at in same if release in addon.options[at].releases), same[-1])


def goals_of(grouped: Iterable[Group], goal: Candidate) -> tuple[tuple[frozenset[int], ...], ...]:
    """Return, by group and addon, the options that are as a release has them."""
    return tuple(tuple(_wanted(addon, goal) for addon in group.addons) for group in grouped)


def _wanted(addon: Addon, goal: Candidate) -> frozenset[int]:
    """Return the options that count as the release's version of an addon."""
    stated = goal.compatibility
    components = stated.of_addon(addon.name) if stated is not None else ()
    if not components:
        return frozenset({ABSENT})
    version = leading(addon.name, components).text
    return frozenset(at for at, option in enumerate(addon.options) if _is(option, addon.name, version))
