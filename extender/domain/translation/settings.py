"""Every setting that a Pod can carry as an annotation: its keys, its meaning, its form.

The one table of them; `docs/annotations.md` is made from it. A setting has a name under our own prefix, and the names
that SUNK and slurm-bridge give it, so that their users' manifests work unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from extender.domain.jobs.job import Mode
from extender.domain.policy.site import TimeoutUnit
from extender.domain.translation import forms
from extender.domain.translation.forms import Form

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting. `sunk` and `bridge` are its names under those prefixes, "" where they have none."""

    name: str
    form: Form[T]
    meaning: str
    sunk: str = ""
    bridge: str = ""


ACCOUNT = Setting("account", forms.WORD, "Account that is charged.", "account", "account")
PARTITION = Setting(
    "partition", forms.WORDS, "Partitions; the first that can start the job is used.", "partition", "partition"
)
QOS = Setting(
    "qos",
    forms.WORD,
    "Quality of service; of several, separated by commas, Slurm takes the one with the highest priority.",
    "qos",
    "qos",
)
RESERVATION = Setting("reservation", forms.WORDS, "Reservation to run in.", "reservation", "reservation")
WCKEY = Setting("wckey", forms.WORD, "Workload characterisation key.", bridge="wckey")
COMMENT = Setting("comment", forms.LINE, "Comment of the job.", "comment")
JOB_NAME = Setting(
    "job-name", forms.LINE, "Readable part of the job's name; the Pod's `namespace/name` if not given.", "", "job-name"
)
CONSTRAINTS = Setting(
    "constraints", forms.LINE, "Features that the node must have (`--constraint`).", "constraints", "constraints"
)
PREFER = Setting("prefer", forms.LINE, "Features that the node should have (`--prefer`).", "prefer")
REQUIRED_NODES = Setting(
    "required-nodes",
    forms.NODES,
    "Nodes that the job must get. When one of them is deleted, the next restart of slurmctld ends the job.",
    "required-nodes",
)
EXCLUDED_NODES = Setting("excluded-nodes", forms.NODES, "Nodes that the job must not get.", "excluded-nodes")
MIN_NODES = Setting("min-nodes", forms.COUNT, "Fewest nodes; at most one for each Pod.", "", "min-nodes")
MAX_NODES = Setting("max-nodes", forms.COUNT, "Most nodes.", "", "max-nodes")
EXCLUSIVE = Setting(
    "exclusive",
    forms.SHARING,
    "Who may share the node: `none` nobody, the job is given all of its CPUs (`--exclusive`); `user` jobs of the same "
    "user; `mcs` jobs that ask the same with the same `mcs-label` (Slurm with MCSPlugin=mcs/label; otherwise anybody); "
    "`topo` nobody, nor the other nodes of its block (topology/block; otherwise anybody); `ok` anybody, and its CPUs "
    "too where the partition allows that (`--oversubscribe`). `true` means `none`; `false` leaves it to the partition.",
    "exclusive",
    "exclusive",
)
USER_ID = Setting(
    "user-id",
    forms.PERSON,
    "User that the job runs as; names are those of the site's `slurm.users`.",
    "user-id",
    "user-id",
)
GROUP_ID = Setting(
    "group-id",
    forms.PERSON,
    "Group that the job runs as, for a job with a user; names are those of the site's `slurm.groups`. If not given: "
    "the site's for its own user, else the primary group of a named `user-id`, the same number as a numeric one.",
    "group-id",
    "group-id",
)
PRIORITY = Setting(
    "priority",
    forms.whole(0, forms.UINT32_LARGEST),
    "Priority of the job instead of the computed one; 0 holds it.",
    "priority",
    "priority",
)
NICE = Setting(
    "nice",
    forms.whole(-forms.NICE_LARGEST, forms.NICE_LARGEST),
    "Taken off the computed priority. Below 0 it needs the permission for `priority`.",
)
WORKING_DIR = Setting("current-working-dir", forms.PATH, "Working directory of the job.", "current-working-dir")
TIMEOUT = Setting(
    "timeout",
    forms.MINUTES,
    "Time limit, from the start of the job; the Pod is told to end its grace earlier. Without it, the Pod's "
    "`activeDeadlineSeconds` and grace and a minute for its start, rounded up to minutes. "
    "A site can declare that SUNK's key counts seconds.",
    "timeout",
    "timelimit",
)
BEGIN = Setting("begin", forms.INSTANT, "Earliest start; `now` is the creation of the Pod.")
DEADLINE = Setting("deadline", forms.INSTANT, "Latest end; `now` is the creation of the Pod.")
DEPENDENCY = Setting("dependency", forms.WORD, "Jobs that have to start or end before (`--dependency`).")
LICENSES = Setting(
    "licenses",
    forms.LINE,
    "Licences that the job holds (`--licenses`), besides those that the Pod's extended resources stand for.",
    bridge="licenses",
)
GRES = Setting(
    "gres", forms.GRES, "GRES on the node, instead of those that the Pod's extended resources stand for.", "", "gres"
)
GPU_TYPE = Setting("gpu-type", forms.TYPE, "Slurm's type of the GPUs, instead of the one that node affinity says.")
CPUS = Setting(
    "cpus-per-task", forms.CPUS, "CPUs, instead of the Pod's requests; rounded up to whole ones.", "", "cpu-per-task"
)
MEMORY = Setting(
    "mem-per-node", forms.MEBIBYTES, "Memory, instead of the Pod's requests; rounded up to MiB.", "", "mem-per-node"
)
SWITCHES = Setting("switches", forms.COUNT, "Most leaf switches that the nodes may hang on (`--switches`).")
MCS_LABEL = Setting("mcs-label", forms.WORD, "Label of Slurm's multi-category security.")
MODE = Setting(
    "mode",
    forms.word_of(Mode),
    "How the placeholder exists in Slurm: with a script, as an allocation, without slurmd, or decided by its nodes.",
)

SETTINGS: tuple[Setting[Any], ...] = (
    *(ACCOUNT, PARTITION, QOS, RESERVATION, WCKEY, MCS_LABEL, JOB_NAME, COMMENT),
    *(CONSTRAINTS, PREFER, REQUIRED_NODES, EXCLUDED_NODES, MIN_NODES, MAX_NODES, SWITCHES, EXCLUSIVE),
    *(CPUS, MEMORY, GRES, GPU_TYPE, LICENSES),
    *(TIMEOUT, BEGIN, DEADLINE, DEPENDENCY, PRIORITY, NICE),
    *(USER_ID, GROUP_ID, WORKING_DIR, MODE),
)

BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_SUNK_NAME = {setting.sunk: setting for setting in SETTINGS if setting.sunk}
BY_BRIDGE_NAME = {setting.bridge: setting for setting in SETTINGS if setting.bridge}

SUNK_NOT_SETTINGS = frozenset({"lock", "drain"})
"""Keys under SUNK's prefix that its own controllers write; they ask nothing of a job."""


def sunk_form(setting: Setting[Any], unit: TimeoutUnit) -> Form[Any]:
    """How a value under SUNK's prefix is read: like our own, but for the unit of the time limit."""
    return forms.SECONDS_AS_MINUTES if setting is TIMEOUT and unit is TimeoutUnit.SECONDS else setting.form
