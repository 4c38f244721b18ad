"""Decisions of a site about the translation of Pods into jobs: defaults, permissions, names of its hardware.

`config.derive` builds these values; the translation reads nothing else of the configuration. `None` and "" mean: the
site does not decide, so Slurm's own default holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain.jobs.job import RunAs
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.named import Nameable
from extender.domain.policy.tenancy import PodPolicy
from extender.domain.wildcards import stars

RESTRICTED_KEYS = frozenset({"user-id", "group-id", "priority"})
"""Settings that a Pod may carry only where the site allows them: slurmctld obeys them because the token is an
administrator's, which the author of a Pod is not. `priority` also covers a `nice` below 0."""

_NAME = r"[A-Za-z0-9_.-]+"
_GRES_NAME = re.compile(rf"{_NAME}(:(?=[A-Za-z0-9_.-]*[A-Za-z]){_NAME})?")
"""slurmctld takes a type of digits alone for a count."""

_LICENSE_NAME = re.compile(r"license/[^\s,:=|;/]+")
_PLACE = re.compile(r"\{(\d+)\}")

LICENSE = "license/"
"""Prefix of a licence in the GRES map, as in Slurm's own TRES."""

NOT_IN_SLURM = "none"
"""Stands in the GRES map for a resource that Slurm does not know."""


class UnderAccounting(StrEnum):
    """Handling of a Pod whose annotations ask Slurm for less than its resources take of the node."""

    REFUSE = "refuse"
    WARN = "warn"


class UnknownResources(StrEnum):
    """Handling of a Pod that requests an extended resource which no line of the GRES map names."""

    ALLOW = "allow"
    REFUSE = "refuse"


class MissingRequests(StrEnum):
    """Handling of a Pod that requests no CPU or no memory."""

    REFUSE = "refuse"
    WHOLE_NODE = "whole-node"
    """Its job gets a node that it shares with no other job, and all of the memory that Slurm has there."""


@dataclass(frozen=True, slots=True)
class MissingSize:
    """Hold the amounts that a job gets for resources that its Pod does not request."""

    cpus: int
    memory_mb: int


class TimeoutUnit(StrEnum):
    """Unit of SUNK's `timeout`. The pages of SUNK disagree with each other; its users count minutes."""

    MINUTES = "minutes"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class GresRule:
    """One line of the GRES map: an extended resource of Kubernetes and what it is in Slurm.

    Raises `ValueError` where pattern and template do not fit each other.
    """

    resource: str
    """Full name, `nvidia.com/gpu`. Each `*` matches any characters and can be used in `gres`."""

    gres: str
    """A GRES name, with a type after a colon if wanted; `license/<name>`; or `none`: Slurm does not know of it.

    `{1}` is what the first `*` of `resource` stood for.
    """

    each: int = 1
    """Count in Slurm for one of `resource`: 10 of `mps` where ten Pods share a GPU."""

    def __post_init__(self) -> None:
        places = self.resource.count("*")
        if "/" not in self.resource:
            raise ValueError(f"GRES map: {self.resource!r} is not an extended resource; it must read <domain>/<name>")
        for place in _PLACE.findall(self.gres):
            if not 1 <= int(place) <= places:
                raise ValueError(
                    f"GRES map: {self.gres!r} uses {{{place}}}, but {self.resource!r} has {places} '*'; "
                    "{1} is the first one"
                )
        if not is_gres(_PLACE.sub("x", self.gres)):
            raise ValueError(
                f"GRES map: {self.gres!r} for {self.resource!r} must read <name>, <name>:<type> with a letter in the "
                f"type, {LICENSE}<name>, or {NOT_IN_SLURM}"
            )
        if self.each < 1:
            raise ValueError(f"GRES map: multiplier: {self.each} for {self.resource!r} must be at least 1")

    def match(self, resource: str) -> str | None:
        """Return the name of `resource` in Slurm; `None`: this rule is not about it."""
        found = stars(self.resource, resource)
        return None if found is None else _PLACE.sub(lambda place: found[int(place[1]) - 1], self.gres)

    def hides(self, later: GresRule) -> bool:
        """Return whether a later line can never be reached, since this one matches all that it does."""
        return self.match(later.resource) is not None


def is_gres(text: str) -> bool:
    """Return whether Slurm can have a GRES, with or without type, or a licence of that name."""
    return bool((_LICENSE_NAME if text.startswith(LICENSE) else _GRES_NAME).fullmatch(text))


DEFAULT_GRES_RULES = (
    GresRule("nvidia.com/gpu", "gpu"),
    GresRule("nvidia.com/mig-*", "gpu:{1}"),
    GresRule("amd.com/gpu", "gpu"),
    GresRule("gpu.intel.com/i915", "gpu"),
    GresRule("gpu.intel.com/xe", "gpu"),
    # Intel's plug-in offers parts of the same device too (millicores, tiles, memory.max), and monitors of all of them.
    GresRule("gpu.intel.com/*", NOT_IN_SLURM),
    # What NVIDIA's plug-in calls a GPU that several Pods share (`renameByDefault` of time-slicing).
    GresRule("nvidia.com/gpu.shared", "shard"),
)

DEFAULT_GPU_TYPE_LABELS = ("gpu.nvidia.com/class", "gpu.nvidia.com/model")
"""The labels by which users of SUNK choose a GPU type."""


@dataclass(frozen=True, slots=True)
class TranslationPolicy:
    """Everything that the translation needs to know of a site."""

    namespaces: frozenset[str] | None = None
    """The namespaces whose Pods are served; `None`: all of them."""

    gres_rules: tuple[GresRule, ...] = DEFAULT_GRES_RULES
    """In order; the first one that matches a resource names its GRES."""

    gpu_type_labels: tuple[str, ...] = DEFAULT_GPU_TYPE_LABELS
    """Node labels whose value, required by a Pod, says which GPU type it wants."""

    gpu_types: Mapping[str, str] = field(default_factory=dict)
    """Value of such a label -> Slurm's type of GRES `gpu`, for example `NVIDIA_L4` -> `l4`."""

    allowed: frozenset[str] = frozenset()
    """Those of `RESTRICTED_KEYS` that a Pod may carry."""

    users: Mapping[str, RunAs] = field(default_factory=dict)
    """Users of the Slurm cluster by name, with their primary groups: Slurm's API takes numbers only."""

    groups: Mapping[str, int] = field(default_factory=dict)
    """Its groups by name."""

    caller: RunAs | None = None
    """Owner of the token; `None`: the site does not list the user."""

    sunk_timeout_unit: TimeoutUnit = TimeoutUnit.MINUTES
    """The unit of `sunk.coreweave.com/timeout`; seconds are rounded up to minutes."""

    defaults: JobDefaults = field(default_factory=JobDefaults)

    namespace_defaults: Mapping[str, JobDefaults] = field(default_factory=dict)
    """Defaults of single namespaces, completed by `defaults`."""

    pods: PodPolicy = field(default_factory=PodPolicy)
    """Rules of the policy file for single Pods; they take precedence over the defaults above."""

    refuse_pinned: bool = False
    """Refuse Pods to which a kubelet with the static CPU policy would give CPUs of their own."""

    nameable: Nameable | None = None
    """Names that Pods may give where no rule decides; `None`: any name."""

    under_accounting: UnderAccounting = UnderAccounting.REFUSE
    """For CPUs, memory, and the resources of the GRES map."""

    unknown_resources: UnknownResources = UnknownResources.ALLOW

    missing_requests: MissingRequests | MissingSize = MissingRequests.REFUSE

    max_pod_grace_s: int = 3600
    """Longest grace period with which a Pod is accepted, in seconds."""

    strict_grace: bool = False
    """SUNK's rule: refuse a Pod whose grace period is not shorter than `kill_wait_s` less 5 seconds."""

    kill_wait_s: int = 30
    """Slurm's KillWait in seconds."""

    def serves(self, namespace: str) -> bool:
        """Return whether Pods of `namespace` are served."""
        return self.namespaces is None or namespace in self.namespaces

    def licensed(self, resource: str) -> bool:
        """Return whether the GRES map makes a licence of `resource`. A licence is on no node."""
        found = next((name for rule in self.gres_rules if (name := rule.match(resource)) is not None), "")
        return found.startswith(LICENSE)

    def user(self, text: str) -> RunAs | None:
        """Return the user of this number or name, with the group of the user; `None`: the name is not known.

        A number brings the group of the same number, as in SUNK; a name brings its primary group.
        """
        return RunAs(int(text), int(text)) if text.isdecimal() else self.users.get(text)

    def group(self, text: str) -> int | None:
        """Return the group of this number or name; `None`: the name is not known."""
        return int(text) if text.isdecimal() else self.groups.get(text)
