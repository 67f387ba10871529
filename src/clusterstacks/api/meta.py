"""What all our kinds share: the base model, object metadata, references, selectors, conditions and resources.

Reading is forgiving where the API server is (unknown fields are ignored, ``null`` means absent) and strict where it is
(no coercion of types). Closed sets in status stay plain strings, so that a status written by another version of the
operator never makes an object unreadable.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_serializer, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core.core_schema import SerializerFunctionWrapHandler  # noqa: TC002 - pydantic reads the annotation

from clusterstacks.api.names import API_VERSION
from clusterstacks.domain.documents import text
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectKey

# Bounds for the API server, chosen so far above anything useful that they refuse nothing the Go operator's CRDs, which
# have none, accept in practice: an object as a whole is limited to 1.5 MiB by etcd.
NAME_LENGTH = 4096
TEXT_LENGTH = 262_144
LIST_LENGTH = 100_000

Name = Annotated[str, Field(max_length=NAME_LENGTH)]
Text = Annotated[str, Field(max_length=TEXT_LENGTH)]

SHOWN_FAULTS = 3
"""Faults named in one message; arbitrary, more would not be read."""


class Model(BaseModel):
    """Base of everything that is part of one of our kinds: immutable, camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:  # noqa: ANN401 - any JSON arrives here
        """Drop nulls, as the API server does for fields that are not nullable."""
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if item is not None}
        return value

    @model_serializer(mode="wrap")
    def _empty_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out optional fields that are empty; false and 0 are no emptiness."""
        written = {name: list(item) if isinstance(item, tuple) else item for name, item in handler(self).items()}
        required = _required(type(self))
        return {name: item for name, item in written.items() if item not in (None, "", [], {}) or name in required}

    def document(self) -> Manifest:
        """Give the plain JSON document."""
        return self.model_dump(mode="json", by_alias=True)


@cache
def _required(model: type[Model]) -> frozenset[str]:
    """Name the required fields, by both of their names."""
    fields = model.model_fields.items()
    return frozenset(key for name, field in fields if field.is_required() for key in (name, field.alias or name))


class OwnerReference(Model):
    """The owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: StrictBool = False


class ObjectMeta(Model):
    """What the controllers read of ``metadata``."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Whether the object is being deleted."""
        return bool(self.deletion_timestamp)


class KubernetesObject(Model):
    """Base of our kinds. The API server serves them with these names in these places."""

    api_version: str = API_VERSION
    kind: str
    metadata: ObjectMeta

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.metadata.key

    @classmethod
    def parse(cls, manifest: Manifest) -> Self:
        """Read an object.

        Raises:
            SpecError: Names the object, up to three faulty fields and what is wrong with each.
        """
        try:
            return cls.model_validate(manifest)
        except ValidationError as error:
            key = ObjectKey(text(manifest, "metadata", "namespace"), text(manifest, "metadata", "name") or "(no name)")
            raise SpecError(
                f"Invalid{cls.__name__}", f"{cls.__name__} {key}: {_faults(error)}; correct it and apply it again"
            ) from error


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False)
    named = [f"{_path(fault['loc'])}: {fault['msg']}" for fault in faults[:SHOWN_FAULTS]]
    if len(faults) > SHOWN_FAULTS:
        named.append(f"and {len(faults) - SHOWN_FAULTS} more")
    return "; ".join(named)


def _path(location: tuple[int | str, ...]) -> str:
    """Write a location as Kubernetes does: ``spec.versions[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


class ObjectReference(Model):
    """Points at one object."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    api_version: Name = Field(default="", description="API group and version of the object.")
    kind: Name = Field(default="", description="Kind of the object.")
    name: Name = Field(default="", description="Name of the object.")
    namespace: Name = Field(
        default="", description="Namespace of the object; empty for that of the object referring to it."
    )
    uid: Name = Field(default="", description="UID of the object. Not used.")
    resource_version: Name = Field(default="", description="Revision of the object. Not used.")
    field_path: Name = Field(default="", description="Part of the object. Not used.")


class Condition(Model):
    """One aspect of the object's state, in the form Cluster API's v1beta1 uses."""

    type: Name = Field(description="Name of the aspect; each occurs once.")
    status: Name = Field(description="True, False or Unknown.")
    severity: Name = Field(default="", description="Error, Warning or Info; only where the status is False.")
    reason: Name = Field(default="", description="Stable CamelCase word for programs.")
    message: Text = Field(default="", description="Object, cause and way out for people.")
    last_transition_time: str = Field(
        description="When the status changed last.", json_schema_extra={"format": "date-time"}
    )


class ResourceEntry(Model):
    """State of one object that comes from a release."""

    group: Name = Field(default="", description="API group of the object; empty for the core group.")
    version: Name = Field(default="", description="API version the object was last applied in.")
    kind: Name = Field(default="", description="Kind of the object.")
    namespace: Name = Field(default="", description="Namespace of the object; empty if it has none.")
    name: Name = Field(default="", description="Name of the object.")
    status: Name = Field(default="", description="synced, or not-synced where applying it failed.")
    error: Text = Field(default="", description="What the API server answered to the failed apply.")
    uid: Name = Field(default="", description="UID the object had when it was last applied.")
    digest: Name = Field(default="", description="Digest of the object as it was last applied.")
    generation: int | None = Field(default=None, description="Generation the object had after it was last applied.")
