"""Common parts of our kinds: the base model, object metadata, references, conditions and resources.

Parsing is as tolerant as the API server (unknown fields are ignored, ``null`` means absent) and as strict (types are
not coerced). Enumerations in status are plain strings, so that an object with a status of another version of the
operator stays readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_serializer, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core.core_schema import SerializerFunctionWrapHandler  # noqa: TC002 - pydantic reads the annotation

from clusterstacks.model.documents import and_more, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import field_path
from clusterstacks.model.kinds.names import API_VERSION, GROUP, READY_CONDITION
from clusterstacks.model.objects import Manifest, ObjectKey

# Maximum lengths for the API server. The Go operator's CRDs have none, so these are far above any practical value; etcd
# limits a whole object to 1.5 MiB.
NAME_LENGTH = 4096
TEXT_LENGTH = 262_144
LIST_LENGTH = 100_000

Name = Annotated[str, Field(max_length=NAME_LENGTH)]
Text = Annotated[str, Field(max_length=TEXT_LENGTH)]
Generation = Annotated[int, Field(strict=True, ge=0, json_schema_extra={"format": "int64"})]

SHOWN_FAULTS = 3
"""Invalid fields listed in one message (arbitrary)."""


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
        """Remove optional fields that are empty; false and 0 are not empty."""
        written = {name: list(item) if isinstance(item, tuple) else item for name, item in handler(self).items()}
        required = _required(type(self))
        return {name: item for name, item in written.items() if item not in (None, "", [], {}) or name in required}

    def document(self) -> Manifest:
        """Return the JSON document."""
        return self.model_dump(mode="json", by_alias=True)


@cache
def _required(model: type[Model]) -> frozenset[str]:
    """Return the names and aliases of the required fields."""
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
    """The fields of ``metadata`` that the controllers use."""

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
        """Key of the object in queues and caches."""
        return ObjectKey(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """True if the object has a deletion timestamp."""
        return bool(self.deletion_timestamp)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; a wide column is shown only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False


def _ready(field: str) -> str:
    return f".status.conditions[?(@.type=='{READY_CONDITION}')].{field}"


READY_COLUMN: Final = Column("Ready", _ready("status"), description="True if the object can be used.")
REASON_COLUMN: Final = Column("Reason", _ready("reason"), description="Why the object is not ready, as one word.")
MESSAGE_COLUMN: Final = Column("Message", _ready("message"), description="Cause and remedy, or what it has.", wide=True)
AGE_COLUMN: Final = Column("Age", ".metadata.creationTimestamp", "date", "Time since the object was created.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CRDOptions:
    """Properties of a CRD besides its schema.

    ``clusterctl move`` starts at ``root`` kinds and moves what they own, and what a Cluster owns. ``cluster_wide``
    kinds are cluster-scoped and not moved, because they belong to the management cluster. The columns begin with Ready
    and Reason; messages, which are long, are wide columns, and Reason is one where numbers say more.
    """

    short_name: str
    columns: tuple[Column, ...]
    group: str = GROUP
    rules: tuple[tuple[str, str], ...] = ()
    """CEL rules about the whole object, with their messages."""
    root: bool = False
    cluster_wide: bool = False


class KubernetesObject(Model):
    """Base of our kinds. The API server serves them with these names in these places."""

    crd: ClassVar[CRDOptions]

    api_version: str = API_VERSION
    kind: str
    metadata: ObjectMeta

    @property
    def key(self) -> ObjectKey:
        """Key of the object in queues and caches."""
        return self.metadata.key

    @classmethod
    def parse(cls, manifest: Manifest) -> Self:
        """Parse an object; a SpecError names the object and up to three invalid fields with their errors."""
        try:
            return cls.model_validate(manifest)
        except ValidationError as error:
            key = ObjectKey(text(manifest, "metadata", "namespace"), text(manifest, "metadata", "name") or "(no name)")
            raise SpecError(
                f"Invalid{cls.__name__}", f"{cls.__name__} {key}: {_faults(error)}; correct it and apply it again"
            ) from error


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False)
    return and_more([f"{field_path(fault['loc'])}: {fault['msg']}" for fault in faults], SHOWN_FAULTS, separator="; ")


class ObjectReference(Model):
    """Reference to an object."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    api_version: Name = Field(default="", description="API group and version of the object.")
    kind: Name = Field(default="", description="Kind of the object.")
    name: Name = Field(default="", description="Name of the object.")
    namespace: Name = Field(default="", description="Namespace of the object; by default that of the referring object.")
    uid: Name = Field(default="", description="UID of the object. Not used.")
    resource_version: Name = Field(default="", description="Revision of the object. Not used.")
    field_path: Name = Field(default="", description="Part of the object. Not used.")


class ConditionEntry(Model):
    """A condition of the object, in the format of Cluster API's v1beta1."""

    type: Name = Field(description="Type of the condition; each type occurs at most once.")
    status: Name = Field(description="True, False or Unknown.")
    severity: Name = Field(default="", description="Error, Warning or Info; only if the status is False.")
    reason: Name = Field(default="", description="Machine-readable reason in CamelCase.")
    message: Text = Field(default="", description="The affected object, the cause and what to do.")
    last_transition_time: str = Field(
        description="Time of the last change of the status.", json_schema_extra={"format": "date-time"}
    )


class ResourceEntry(Model):
    """State of one object that comes from a release."""

    group: Name = Field(default="", description="API group of the object; empty for the core group.")
    version: Name = Field(default="", description="API version the object was last applied in.")
    kind: Name = Field(default="", description="Kind of the object.")
    namespace: Name = Field(default="", description="Namespace of the object; empty for a cluster-scoped object.")
    name: Name = Field(default="", description="Name of the object.")
    status: Name = Field(default="", description="synced, or not-synced if applying it failed.")
    error: Text = Field(default="", description="Error of the API server if applying it failed.")
    uid: Name = Field(default="", description="UID the object had when it was last applied.")
    digest: Name = Field(default="", description="Digest of the object as it was last applied.")
    generation: int | None = Field(default=None, description="Generation the object had after it was last applied.")
