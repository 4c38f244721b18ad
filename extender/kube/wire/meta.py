"""Reads what every Kubernetes object carries: its metadata."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.translation.annotation_reader import LONGEST_VALUE
from extender.domain.translation.translate import MOST_KEYS
from extender.domain.views import OwnerReference
from extender.domain.wellknown import READ_PREFIXES
from extender.kube.wire.fields import Fields, parsed

LONGEST_FOREIGN = 256
"""Characters of an annotation that the extender does not read. `last-applied-configuration` has its object's size."""

LONGEST_READ = 2 * LONGEST_VALUE
"""Characters that are kept of one that is read. Longer ones are refused, and so is what is left of them."""

LONGEST_OWNER = 320
"""Characters of a field of an owner reference that are kept, more than any owner has: `apiVersion` has at most 317."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of an object of which nothing more could be read."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The part of any object's metadata that is read of owners. `annotations`: those that the extender reads."""

    uid: str
    annotations: Mapping[str, str]
    owner: OwnerReference | None


def annotations_of(meta: Fields) -> dict[str, str]:
    """Return the annotations as far as they are needed: their author decides how long they are.

    Of those that the extender does not read, long ones are without their value. The keys stay: a JSON patch has to know
    whether there are any. Of more than MOST_KEYS one more is kept, by which the Pod is refused; those that are read go
    first.
    """
    found = meta.strings("annotations")
    if len(found) > MOST_KEYS:
        read = [key for key in found if key.startswith(READ_PREFIXES)]
        others = (key for key in found if not key.startswith(READ_PREFIXES))
        found = {key: found[key] for key in itertools.islice(itertools.chain(read, others), MOST_KEYS + 1)}
    return {
        key: value[:LONGEST_READ] if key.startswith(READ_PREFIXES) else value if len(value) <= LONGEST_FOREIGN else ""
        for key, value in found.items()
    }


def labels_of(meta: Fields) -> dict[str, str]:
    """Return the labels; of more than MOST_KEYS one more is kept, by which the Pod is refused."""
    found = meta.strings("labels")
    return found if len(found) <= MOST_KEYS else dict(itertools.islice(found.items(), MOST_KEYS + 1))


def controlling_owner(meta: Fields) -> OwnerReference | None:
    """Return the reference with `controller: true`; the API server allows one at most, of any length."""
    for one in meta.each("ownerReferences"):
        if one.flag("controller"):
            fields = (one.text(key)[:LONGEST_OWNER] for key in ("apiVersion", "kind", "name", "uid"))
            return OwnerReference(*fields)
    return None


_API_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def names_an_object(owner: OwnerReference) -> bool:
    """Return whether a reference can be that of an object: its author may have written anything.

    A field that is too long was or may have been cut. A dot or two as a part of a path would lead to another one, such
    as that of a list.
    """
    longest = max(map(len, (owner.api_version, owner.kind, owner.name, owner.uid)))
    named = owner.name not in {"", ".", ".."} and _API_VERSION.fullmatch(owner.api_version) is not None
    return longest < LONGEST_OWNER and named


def read_object_meta(data: bytes) -> ObjectMeta:
    """Read the metadata of any object. Raises MalformedObject."""
    meta = parsed("object", data).inner("metadata")
    read = {key: value for key, value in annotations_of(meta).items() if key.startswith(READ_PREFIXES)}
    return ObjectMeta(meta.text("uid"), read, controlling_owner(meta))


def read_identity(obj: object) -> Identity:
    """Read the identity of any object, however malformed the rest is. Raises MalformedObject if it has none."""
    meta = Fields("object", obj).inner("metadata")
    return Identity(meta.text("uid"), meta.text("namespace"), meta.text("name"), meta.text("resourceVersion"))
