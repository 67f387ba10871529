"""What the Secrets of a source hold. They are read whenever the source is asked, and nothing of them is ever shown."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from clusterstacks.kube.client import Client

DOCKER_CONFIG = ".dockerconfigjson"


class SecretUnusable(DependencyError):
    """A Secret is missing or does not hold what it should; a person must mend it, but nothing tells when."""

    def __init__(self, secret: str, problem: str) -> None:
        super().__init__("SecretUnusable", f"Secret {secret} {problem}")


@dataclass(frozen=True, slots=True)
class SecretReader:
    """Reads Secrets of the management cluster live."""

    client: Client

    async def values(self, namespace: str, name: str, *, purpose: str) -> dict[str, bytes]:
        """Read every value of a Secret.

        Args:
            namespace: The Secret's.
            name: The Secret's.
            purpose: The field that names it, for messages.

        Raises:
            SecretUnusable: There is none.
            DependencyError: The API server does not give it.
        """
        title = f"{namespace}/{name}"
        secret = await self.client.find(await self.client.resource("", "Secret"), name, namespace)
        if secret is None:
            raise SecretUnusable(title, f"does not exist, but {purpose} names it; create it")
        try:
            return {key: base64.b64decode(value, validate=True) for key, value in (secret.get("data") or {}).items()}
        except (binascii.Error, TypeError):
            raise SecretUnusable(title, "holds a value that is no base64; write it again") from None

    async def value(self, namespace: str, name: str, key: str, *, purpose: str) -> bytes:
        """Read one value.

        Raises:
            SecretUnusable: There is none.
            DependencyError: The API server does not give it.
        """
        values = await self.values(namespace, name, purpose=purpose)
        if key not in values:
            raise SecretUnusable(f"{namespace}/{name}", f"has no key {key}, but {purpose} names it; add it")
        return values[key]
