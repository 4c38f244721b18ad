"""Describe the gang of one Pod: its source, its incarnation, the number of its members, and the place of the Pod."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum


class GangSource(StrEnum):
    """Name the source that makes a Pod a member of a gang. The value is its name in messages and metrics."""

    ANNOTATION = "annotation"
    """The extender's own `gang` and `gang-size`."""

    POD_GROUP = "pod-group"
    """`spec.schedulingGroup`, a PodGroup of `scheduling.k8s.io`."""

    COSCHEDULING = "coscheduling"
    """A PodGroup of scheduler-plugins."""

    KUEUE = "kueue"
    VOLCANO = "volcano"
    LEADER_WORKER_SET = "leader-worker-set"
    JOB_SET = "job-set"
    JOB = "job"


POD_GROUPS = frozenset({GangSource.POD_GROUP, GangSource.COSCHEDULING, GangSource.VOLCANO})
"""Sources that name an object, a PodGroup, which says how many members the gang has."""

SIZE_ON_PODS = frozenset({GangSource.ANNOTATION, GangSource.KUEUE})
"""Sources in which each Pod says how many members the gang has."""

SHARED_NAMES = SIZE_ON_PODS | POD_GROUPS
"""Sources whose text any author in the namespace can repeat: such members are also held to one Slurm tenant."""


_KEY_PREFIX = "gang-"
"""No UID of a Pod begins so: the key of any other workload is the UID of its Pod."""


def is_key_of_gang(workload: str) -> bool:
    """Return whether the key of a workload, as the mark of its job has it, is that of a gang."""
    return workload.startswith(_KEY_PREFIX)


@dataclass(frozen=True, slots=True)
class MemberOrder:
    """The place of a Pod among the members. Members compare by `index`, then by name with numbers as numbers.

    `index` is what the Pod's labels say, most significant number first; empty: only the name says it.
    """

    index: tuple[int, ...] = ()
    name: str = ""
    natural: str = field(init=False, repr=False, compare=False)
    """The name in the form that is compared. Made once: thousands of Pods that name one gang are sorted repeatedly."""

    def __post_init__(self) -> None:
        """Make the form of the name that is compared."""
        object.__setattr__(self, "natural", _natural(self.name))

    @property
    def key(self) -> tuple[bool, tuple[int, ...], str]:
        """Return what members are sorted by; those without an index follow those with one."""
        return not self.index, self.index, self.natural


@dataclass(frozen=True, slots=True)
class Membership:
    """The gang of one Pod. Two Pods are members of one gang if their memberships have the same `key`."""

    source: GangSource
    namespace: str
    name: str
    """What messages call the gang: `LeaderWorkerSet vllm, group 2`."""

    incarnation: tuple[str, ...]
    """Distinguishes this generation of the owner's Pods from all others of namespace and source. Empty: not known."""

    expected: int | None
    """How many Pods the gang has; `None`: not known yet."""

    order: MemberOrder
    unknown: str = ""
    """Why incarnation or size are not known yet, as a sentence; "" if both are."""

    most: int | None = None
    """How many Pods it had before any succeeded, where their owner says that; `None`: `expected`."""

    further: bool = False
    """The owner creates another Pod for each that succeeds."""

    by_leader: bool = False
    """The owner creates other members only after the first ones are Ready: the first one alone completes the gang."""

    def key(self, tenant: tuple[str, ...] = ()) -> str:
        """Return the key of the workload: opaque, at most 64 characters, the same after a restart.

        `tenant` is what `tenancy.tenant_of` says; only for sources in `SHARED_NAMES`.
        """
        parts = [self.source, self.namespace, *self.incarnation]
        if self.source in SHARED_NAMES:
            parts += ["tenant", *tenant]
        return f"{_KEY_PREFIX}{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"


def gang_title(membership: Membership) -> str:
    """Return the readable part of the name of the gang's job."""
    return f"{membership.namespace}/{membership.name}"


LONGEST_ORDERED = 253
"""Characters of a name that are compared: what Kubernetes allows for a Pod's."""


_DIGITS = re.compile("[0-9]+")

_NUMBER = 0xE000
"""The private characters from here on stand before each number, and say how many digits it has. No name has them."""


def _natural(name: str) -> str:
    """Return a text by which `worker-10` follows `worker-9`: each run of digits by its length, then by its digits."""
    return _DIGITS.sub(_weighed, name[:LONGEST_ORDERED])


def _weighed(run: re.Match[str]) -> str:
    number = run[0].lstrip("0")
    return chr(_NUMBER + len(number)) + number
