"""Made-up worlds for the upgrade planner, by family: what facts bind together decides how hard a question is."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from clusterstacks.plan.compat.world import ClusterState, World
from tests.support.planner_oracle import candidate

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.plan.planner.model_builder import Target

OLDEST_MINOR = 28

Statement = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a world is."""

    addons: int = 20
    releases: int = 30
    minors: int = 12

    def minor(self, number: int) -> int:
        """Return the Kubernetes minor of a release."""
        return OLDEST_MINOR + number * self.minors // self.releases

    def __str__(self) -> str:
        return f"{self.addons} x {self.releases} x {self.minors}"


@dataclass(frozen=True, slots=True)
class Family:
    """Worlds of one kind.

    Args:
        name: Of the kind.
        size: Of its worlds.
        make: Makes the world of a seed.
        seconds: What a question may take; None where the time limit is what ends it.
    """

    name: str
    size: Size
    make: Callable[[Random, Size], World]
    seconds: float | None

    def questions(self, seed: int) -> list[tuple[World, ClusterState, Target]]:
        """Ask for the last release and for the last version, from the first release."""
        world = self.make(Random(seed), self.size)
        first, last = world.candidates[0], world.candidates[-1]
        state = ClusterState(first.kubernetes, first.kubernetes, first.name)
        return [(world, state, last.name), (world, state, last.kubernetes)]


def _releases(
    size: Size,
    component: Callable[[int, int], Statement],
    *,
    patch: Callable[[int], int] = lambda number: number % 3 + 1,
    stated: Callable[[int], str] = lambda minor: f">=1.{minor - 1} <1.{minor + 3}",
    bundle: Callable[[int], bool] = lambda number: False,  # noqa: ARG005 - none is
    rules: tuple[Statement, ...] = (),
) -> World:
    candidates = []
    for number in range(size.releases):
        minor = size.minor(number)
        components = [component(addon, number) for addon in range(size.addons)]
        document = {"kubernetes": stated(minor), "components": components, "rules": list(rules)}
        name = f"p-s-1-{minor}-v{number + 1}"
        candidates.append(candidate(name, f"v1.{minor}.{patch(number)}", None if bundle(number) else document))
    return World(tuple(candidates))


def _component(addon: int, version: str, kubernetes: str, step: int | None = None, **more: object) -> Statement:
    upgrade = {} if step is None else {"upgrade": {"maxMinorStep": step}}
    return {
        "name": f"a{addon}",
        "addon": f"a{addon}",
        "version": version,
        "kubernetes": kubernetes,
        **upgrade,
        **more,
    }


def _random_window(r: Random, minor: int) -> str:
    return f">=1.{minor - r.randint(0, 2)} <1.{minor + 2 + r.randint(0, 1)}"


def apart(r: Random, size: Size) -> World:
    """No fact is about two addons."""
    return _releases(
        size,
        lambda addon, number: _component(
            addon,
            f"1.{10 + number}.{r.randint(0, 3)}",
            _random_window(r, size.minor(number)),
            r.randint(1, 3),
        ),
    )


def own_patches(r: Random, size: Size) -> World:
    """Every release has a Kubernetes version of its own, and an addon moves one minor at a time."""
    return _releases(
        size,
        lambda addon, number: _component(addon, f"1.{10 + number}.0", _random_window(r, size.minor(number)), 1),
        patch=lambda number: number + 1,
    )


def narrow(r: Random, size: Size) -> World:
    """Windows of two minors, which overlap by one, and an addon version of its own in every release."""
    return _releases(
        size,
        lambda addon, number: _component(
            addon, f"1.{10 + number}.{r.randint(0, 9)}", f">=1.{size.minor(number) - 1} <1.{size.minor(number) + 1}"
        ),
        patch=lambda number: number + 1,
    )


def patch_windows(r: Random, size: Size) -> World:
    """Ranges begin and end at patch versions, so that no two Kubernetes versions are alike."""

    def component(addon: int, number: int) -> Statement:
        minor = size.minor(number)
        low, high = r.randint(0, size.releases), r.randint(0, size.releases)
        window = f">=1.{minor - 1}.{low} <1.{minor + 2}.{high}"
        return _component(addon, f"1.{10 + number}.0", window, r.randint(1, 3))

    return _releases(size, component, patch=lambda number: number + 1)


def up_and_down(r: Random, size: Size) -> World:
    """Some addon versions may be moved down to, and ranges have holes."""

    def component(addon: int, number: int) -> Statement:
        minor = size.minor(number)
        hole = r.randint(minor, minor + 2)
        window = f">=1.{minor - 2} <1.{hole} || >=1.{hole + 1} <1.{minor + 4}"
        return _component(
            addon, f"1.{10 + number}.0", window, upgrade={"maxMinorStep": r.randint(1, 2), "downgrade": True}
        )

    return _releases(size, component, patch=lambda number: number + 1)


def equal_releases(_: Random, size: Size) -> World:
    """Three releases each differ in nothing but their name and Kubernetes patch."""

    def component(addon: int, number: int) -> Statement:
        third = number // 3 * 3
        return _component(addon, f"1.{10 + third}.0", f">=1.{size.minor(third) - 1} <1.{size.minor(third) + 3}")

    return _releases(size, component, patch=lambda number: number + 1)


def bundles(r: Random, size: Size) -> World:
    """The first third and the last release are bundles."""
    return _releases(
        size,
        lambda addon, number: _component(
            addon, f"1.{10 + number}.0", _random_window(r, size.minor(number)), r.randint(1, 3)
        ),
        patch=lambda number: number + 1,
        bundle=lambda number: number < size.releases // 3 or number == size.releases - 1,
    )


def no_bridge(r: Random, size: Size) -> World:
    """No version of one addon works with two neighbouring minors."""
    gap = OLDEST_MINOR + size.minors // 2

    def component(addon: int, number: int) -> Statement:
        minor = size.minor(number)
        window = _random_window(r, minor)
        if addon == size.addons // 2:
            low, high = (gap, minor + 2) if minor >= gap else (minor - 1, gap)
            window = f">=1.{low} <1.{high}"
        return _component(addon, f"1.{10 + number}.{r.randint(0, 3)}", window, r.randint(1, 3))

    return _releases(size, component)


def _coupled(
    r: Random, size: Size, partners: Callable[[int], list[int]], slack: tuple[int, int] = (3, 4), step: int | None = 0
) -> World:
    """Every addon requires its partners' versions from ``slack`` below its own to ``slack`` above, exclusive."""

    def component(addon: int, number: int) -> Statement:
        version, (below, above) = 10 + number, slack
        required = {f"a{other}": f">=1.{version - below} <1.{version + above}" for other in partners(addon)}
        most = r.randint(1, 3) if step == 0 else step
        window = _random_window(r, size.minor(number))
        return _component(addon, f"1.{version}.{r.randint(0, 3)}", window, most, requires=required)

    return _releases(size, component)


def pairs(r: Random, size: Size) -> World:
    """Two addons each require each other's minor, one up or down."""
    return _coupled(r, size, lambda addon: [addon ^ 1] if addon ^ 1 < size.addons else [], (1, 2), None)


def loose_pairs(r: Random, size: Size) -> World:
    """Two addons each require each other's minor, three up or down."""
    return _coupled(r, size, lambda addon: [addon ^ 1] if addon ^ 1 < size.addons else [])


def chain(r: Random, size: Size) -> World:
    """Every addon requires the one before it."""
    return _coupled(r, size, lambda addon: [addon - 1] if addon else [])


def tight_chain(r: Random, size: Size) -> World:
    """Every addon requires the one before it, one minor up or down: all move in step."""
    return _coupled(r, size, lambda addon: [addon - 1] if addon else [], (1, 2), None)


def hub(r: Random, size: Size) -> World:
    """All require the first."""
    return _coupled(r, size, lambda addon: [0] if addon else [])


def tight_hub(r: Random, size: Size) -> World:
    """All require the first, one minor up or down."""
    return _coupled(r, size, lambda addon: [0] if addon else [], (1, 2), None)


def all_coupled(r: Random, size: Size) -> World:
    """Every addon requires every other."""
    return _coupled(r, size, lambda addon: [other for other in range(size.addons) if other != addon])


def split_pairs(r: Random, size: Size) -> World:
    """Two addons each require each other's very minor: neither can move first."""
    return _coupled(r, size, lambda addon: [addon ^ 1] if addon < 2 else [], (0, 1))


def choices(r: Random, size: Size) -> World:
    """Each addon asks the way to pass through one of three patch versions: a formula in conjunctive normal form."""
    variables, clauses = size.minors, size.addons
    candidates = []
    literals = {
        addon: [(OLDEST_MINOR + v, r.randint(1, 2)) for v in r.sample(range(1, variables - 1), 3)]
        for addon in range(clauses)
    }
    last = OLDEST_MINOR + variables - 1

    def component(addon: int, version: int) -> Statement:
        if version == 0:
            return _component(addon, "1.0.0", f">=1.{OLDEST_MINOR} <1.{last}")
        if version == 4:
            return _component(addon, "1.4.0", f">=1.{OLDEST_MINOR}", requires={}, upgrade={"maxMinorStep": 3})
        minor, patch = literals[addon][version - 1]
        return _component(addon, f"1.{version}.0", f"=1.{minor}.{patch}")

    for number, version in enumerate((0, 1, 2, 3, 4)):
        components = [component(addon, version) for addon in range(clauses)]
        minor = OLDEST_MINOR if version < 4 else last
        document = {"kubernetes": f">=1.{OLDEST_MINOR} <1.{last + 1}", "components": components}
        candidates.append(candidate(f"p-s-1-{minor}-v{number + 1}", f"v1.{minor}.1", document))
    # Releases that do nothing but name the patch versions of every minor.
    for at in range(1, variables - 1):
        for patch in (1, 2):
            minor = OLDEST_MINOR + at
            document = {"kubernetes": f">=1.{OLDEST_MINOR} <1.{last + 1}"}
            candidates.insert(1, candidate(f"p-s-1-{minor}-v{10 + patch}", f"v1.{minor}.{patch}", document))
    return World(tuple(candidates))


HUGE = Size()
ISSUE = Size(15, 12, 8)

FAMILIES = (
    Family("apart", HUGE, apart, 1),
    Family("a Kubernetes patch for every release", Size(2, 12, 8), own_patches, 1),
    Family("a Kubernetes patch for every release", HUGE, own_patches, 1),
    Family("narrow windows", ISSUE, narrow, 1),
    Family("narrow windows", HUGE, narrow, 1),
    Family("windows between patches", HUGE, patch_windows, 1),
    Family("up and down", HUGE, up_and_down, 5),
    Family("equal releases", HUGE, equal_releases, 1),
    Family("bundles", HUGE, bundles, 5),
    Family("pairs", HUGE, pairs, 2),
    Family("loose pairs", HUGE, loose_pairs, 2),
    Family("chain", HUGE, chain, 2),
    Family("tight chain", HUGE, tight_chain, 2),
    Family("hub", HUGE, hub, 2),
    Family("tight hub", HUGE, tight_hub, 2),
    Family("no bridge", HUGE, no_bridge, 5),
    Family("pair that cannot move", HUGE, split_pairs, 5),
    Family("all coupled", HUGE, all_coupled, None),
    Family("a formula", HUGE, choices, None),
)
