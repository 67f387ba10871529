"""The source and trusted keys of a ClusterStack, checked against the operator's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import parse_duration
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.source import SourceSpec, VerificationPolicy
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.release.signing.stage_requirement import StageRequirement
from clusterstacks.release.sources.source_kinds import KINDS
from clusterstacks.release.sources.spec import SignatureTrust, SourceSettings, StageTrust, TrustedKey

if TYPE_CHECKING:
    from clusterstacks.model.kinds.clusterstack import ClusterStack
    from clusterstacks.model.kinds.source import StageSpec, VerificationSpec
    from clusterstacks.release.sources.spec import SourceAddress

NOTHING_ALLOWED: Final = AllowedHosts()

SECRET_KEY = "cosign.pub"  # noqa: S105 - no secret: the name cosign gives the public key in a Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePolicy:
    """The operator's settings about sources: defaults of ClusterStacks without a source or keys."""

    default: SourceSettings
    trust: SignatureTrust | None = None
    allowed: AllowedHosts = NOTHING_ALLOWED
    """Hosts and repositories that ClusterStacks may name; directories below the operator's own are always allowed."""

    def settings(self, stack: ClusterStack | None) -> SourceSettings:
        """Return the source of a ClusterStack; the operator's own for a release without a ClusterStack.

        Raises:
            SpecError: It is not allowed, or the stack names none or several.
        """
        named = named_settings(stack, self.default.address) if stack is not None else None
        if stack is None or named is None:
            return self.default
        address = named.address
        is_default = address == self.default.address
        if address.kind.is_remote and not is_default and not self.allowed.allows(address.kind.allowlist_url(address)):
            raise SpecError(
                "SourceNotAllowed",
                f"ClusterStack {stack.key}: spec.source names {address}, which the operator's --allowed-sources does "
                "not allow; name another source, or ask the provider to add it to that flag",
            )
        return named

    def trusted(self, stack: ClusterStack | None) -> SignatureTrust | None:
        """Return the keys that must have signed the releases of a ClusterStack; None when no signature is required.

        If the operator requires a signature, a ClusterStack can require more, but not less: its keys replace those of
        the operator only for another source, which the provider allowed by ``--allowed-sources``.
        """
        spec = _verification(stack)
        if stack is None or spec is None or not spec.keys:
            return self.trust
        own = trust_of(spec, stack.key.namespace)
        if self.trust is None or not self.trust.required:
            return own
        address = self.settings(stack).address
        if address.kind.is_remote and address != self.default.address:
            return replace(own, required=True)
        return replace(own, operators=self.trust) if own.required else self.trust

    def stages(self, stack: ClusterStack | None) -> tuple[StageTrust, ...]:
        """Return the stages that the releases of a ClusterStack must have passed."""
        spec = _verification(stack)
        if stack is None or spec is None:
            return ()
        return tuple(_stage(number, one, spec, stack.key.namespace) for number, one in enumerate(spec.evidence))


def _verification(stack: ClusterStack | None) -> VerificationSpec | None:
    return stack.spec.source.verification if stack is not None and stack.spec.source is not None else None


def _stage(number: int, spec: StageSpec, verification: VerificationSpec, namespace: str) -> StageTrust:
    keys = trust_of(verification.model_copy(update={"keys": spec.keys}), namespace)
    return StageTrust(
        replace(keys, setting=f"spec.source.verification.evidence[{number}].keys"),
        StageRequirement(
            stage=spec.stage,
            soak=parse_duration(spec.soak) if spec.soak else timedelta(),
            clusters=spec.clusters,
            upgrades_from=spec.upgrades_from,
        ),
    )


def named_settings(stack: ClusterStack, default: SourceAddress | None = None) -> SourceSettings | None:
    """Return the source of a ClusterStack, allowed or not; None when the operator's own is used.

    The operator's own source, ``default``, is always allowed.

    Raises:
        SpecError: It names none or several, or an invalid API URL of GitHub.
    """
    spec = stack.spec.source
    if spec is None:
        return None
    address = _address(stack, spec)
    if address != default:
        address = address.kind.checked(address, stack.key)
    return SourceSettings(
        address=address,
        namespace=stack.key.namespace if spec.credentials or spec.ca else "",
        credentials=spec.credentials.secret_name if spec.credentials else "",
        ca=spec.ca.secret_name if spec.ca else "",
        ca_key=spec.ca.key if spec.ca else "",
        interval=address.interval(spec.interval),
    )


def trust_of(spec: VerificationSpec, namespace: str) -> SignatureTrust:
    """Parse ``verification``; ``namespace`` is the namespace of its Secrets."""
    keys = tuple(
        TrustedKey(secret=key.secret_name, key=key.key or SECRET_KEY) if key.secret_name else TrustedKey(key.public_key)
        for key in spec.keys
    )
    named = any(key.secret for key in keys)
    return SignatureTrust(
        keys=keys, required=spec.policy is VerificationPolicy.REQUIRE, namespace=namespace if named else ""
    )


def default_settings(spec: SourceSpec) -> SourceSettings:
    """Parse the operator's own source, whose credentials and CAs do not come from Secrets."""
    address = _one_address(spec)
    if address is None:
        raise SpecError("SourceUnclear", "name one source")
    return SourceSettings(address=address, interval=address.interval(spec.interval), own=True)


def _address(stack: ClusterStack, spec: SourceSpec) -> SourceAddress:
    address = _one_address(spec)
    if address is None:
        raise SpecError(
            "SourceUnclear",
            f"ClusterStack {stack.key}: spec.source must name exactly one of {', '.join(KINDS)}",
        )
    return address


def _one_address(spec: SourceSpec) -> SourceAddress | None:
    addresses = [kind.from_spec(place) for kind in KINDS.values() if (place := getattr(spec, kind.name)) is not None]
    return addresses[0] if len(addresses) == 1 else None
