"""SEC-26: a ClusterStack may require more signatures than the operator, never fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.regressions.test_pins import content, is_verified, publish_signed, requiring
from tests.support.builders.signatures import ecdsa_key
from tests.support.running.sources import below_the_operators_directory, trusting
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from clusterstacks.release.signing.keys import PrivateKey
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("SEC-26")

OURS, TEAMS = ecdsa_key("operators"), ecdsa_key("teams")


@pytest.mark.parametrize(
    ("signers", "policy", "words"),
    [
        ((), "Warn", "is not signed by a trusted key"),
        ((TEAMS,), "Warn", "not by a trusted key (--verification-keys[0] "),
        ((TEAMS,), "Require", "not by a trusted key (--verification-keys[0] "),
        ((OURS,), "Require", "not by a trusted key (spec.source.verification.keys[0] "),
    ],
    ids=["unsigned", "own key and Warn", "own key and Require", "the operator's key alone"],
)
async def test_stricter_policy_counts(world: World, signers: tuple[PrivateKey, ...], policy: str, words: str) -> None:
    name = world.stack.release("v1")
    publish_signed(world.releases, name, content(world, "v1", {"text": "v1"}), *signers)
    async with requiring(world, OURS):
        await world.create(_stack(world, policy=policy))

        await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "SignatureVerified", "SignatureRequired", words=[words]
        )
        assert await world.find("ClusterClass", name.class_name) is None


@pytest.mark.parametrize(
    ("signers", "policy"), [((OURS,), "Warn"), ((OURS, TEAMS), "Require")], ids=["Warn", "Require"]
)
async def test_release_that_fulfils_both_is_used(world: World, signers: tuple[PrivateKey, ...], policy: str) -> None:
    name = world.stack.release("v1")
    publish_signed(world.releases, name, content(world, "v1", {"text": "v1"}), *signers)
    async with requiring(world, OURS) as operator:
        await world.create(_stack(world, policy=policy))
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, lambda one: is_ready(one) and is_verified(one))
        await operator.close()
    async with requiring(world, OURS):  # the recorded proof is enough after a restart
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, lambda one: is_ready(one) and is_verified(one))


def _stack(world: World, **verification: Any) -> dict[str, Any]:
    source = below_the_operators_directory(verification=trusting(TEAMS, **verification))
    return world.stack.manifest(world.namespace, "v1", source=source)
