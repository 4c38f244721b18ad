"""What every Kubernetes object carries: metadata, and the Status that answers a failed request.

The models are tolerant where the API is: unknown fields are ignored, a `null` stands for an absent value (Go writes nil
slices and maps so), numbers may be strings and strings numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from extender.domain.translation.annotations import LONGEST_VALUE
from extender.domain.translation.translate import MOST_KEYS
from extender.domain.wellknown import READ_PREFIXES


class OddObject(ValueError):
    """A JSON object that is not of the form its kind has. The text names the fields that are wrong and their values."""


class Unreadable(ValueError):
    """Bytes that are not what the API server sends there at all."""


class Wire(BaseModel):
    """Base of the models: camelCase keys, unknown keys ignored, values compared as they come."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", coerce_numbers_to_str=True, frozen=True)


StringMap = dict[str, str]

MOST = 100
"""Entries of a list or map of a Pod that are looked at for each node. A Pod may have 250,000 tolerations (a request of
3 MB), each of which would be compared with the taints of each node."""


def _cut(value: object) -> object:
    """Leave out what makes no difference any more, before it costs something to read."""
    return value[: MOST + 1] if isinstance(value, list) and len(value) > MOST else value


_Entry = TypeVar("_Entry")
Few = Annotated[list[_Entry], BeforeValidator(_cut)]
"""A list of which at most `MOST` entries and one are read: one more than `MOST` means that there are too many."""

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A whole number as Go's clients can send it; another one makes its object odd."""


class OwnerWire(Wire):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class MetaWire(Wire):
    """`metadata`."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    resource_version: str | None = None
    annotations: StringMap | None = None
    labels: StringMap | None = None
    owner_references: list[OwnerWire] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: Int64 | None = None
    generation: Int64 | None = None


LONGEST_FOREIGN = 256
"""Characters of an annotation that nobody here reads. `last-applied-configuration` alone is as large as its object."""

LONGEST_READ = 2 * LONGEST_VALUE
"""Characters that are kept of one that is read. Longer ones are refused, and so is what is left of them."""


def annotations_of(meta: MetaWire) -> StringMap:
    """The annotations as far as they are needed, for the sake of memory: their author decides how long they are.

    Of those that nobody here reads, long ones are without their value. The keys stay: a JSON patch has to know whether
    there are any. Of more than MOST_KEYS one more is kept, by which the Pod is refused; those that are read go first.
    """
    found = meta.annotations or {}
    if len(found) > MOST_KEYS:
        read = [key for key in found if key.startswith(READ_PREFIXES)]
        others = (key for key in found if not key.startswith(READ_PREFIXES))
        found = {key: found[key] for key in itertools.islice(itertools.chain(read, others), MOST_KEYS + 1)}
    return {
        key: value[:LONGEST_READ] if key.startswith(READ_PREFIXES) else value if len(value) <= LONGEST_FOREIGN else ""
        for key, value in found.items()
    }


def read_annotations_of(meta: MetaWire) -> StringMap:
    """Those annotations that are read here, bounded as `annotations_of` bounds them."""
    return {key: value for key, value in annotations_of(meta).items() if key.startswith(READ_PREFIXES)}


def labels_of(meta: MetaWire) -> StringMap:
    """The labels; of more than MOST_KEYS one more is kept, by which the Pod is refused."""
    return dict(itertools.islice((meta.labels or {}).items(), MOST_KEYS + 1))


class _IdentityMetaWire(Wire):
    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    resource_version: str | None = None


class _IdentityWire(Wire):
    metadata: _IdentityMetaWire = _IdentityMetaWire()


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object this is, where nothing more of it could be read."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class _ObjectWire(Wire):
    metadata: MetaWire = MetaWire()


def read_object_meta(data: bytes) -> MetaWire:
    """The metadata of any object. Raises OddObject."""
    try:
        return _ObjectWire.model_validate_json(data).metadata
    except ValidationError as error:
        raise OddObject(f"not an object: {explain(error)}") from error


class StatusWire(Wire):
    """`kind: Status`, the body of every refusal and the object of a watch's ERROR event."""

    code: Int64 = 0
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


def read_identity(obj: Mapping[str, Any]) -> Identity:
    """The identity of any object, however odd the rest is. Raises OddObject when not even that can be read."""
    try:
        meta = _IdentityWire.model_validate(obj).metadata
    except ValidationError as error:
        raise OddObject(explain(error)) from error
    return Identity(meta.uid or "", meta.namespace or "", meta.name or "", meta.resource_version or "")


def explain(error: ValidationError) -> str:
    """One line: each wrong field, what is wrong, and the value."""
    faults = error.errors(include_url=False, include_context=False)
    return "; ".join(f"{_place(fault['loc'])}: {fault['msg']}, got {_shortened(fault['input'])}" for fault in faults)


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "the whole"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def seconds(instant: datetime | None) -> float | None:
    """Seconds since the epoch. A time without a zone is in UTC, as Kubernetes writes all of them."""
    if instant is None:
        return None
    return (instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)).timestamp()
