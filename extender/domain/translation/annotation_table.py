"""The table of all settings of a job: annotation, form, request field, site default, Slurm field.

`docs/reference/annotations.md`, `jobs.defaults` of the configuration, the translation of a Pod and the request to Slurm
are made from it. To add an annotation, add a line here, name it in `SETTINGS`, and add the field to `JobRequest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from extender.domain.jobs.job import GangLayout, GangRestart, Mode, OnNodeFailure
from extender.domain.translation import forms
from extender.domain.translation.forms import Form

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting of a job. An empty field means: the setting has none."""

    name: str
    """Key of the annotation under the extender's own prefix."""

    form: Form[T]
    meaning: str
    """For the author of a Pod."""

    sunk: str = ""
    """Key under SUNK's prefix."""

    bridge: str = ""
    """Key under slurm-bridge's prefix."""

    request: str = ""
    """Field of `JobRequest` that holds the value. `translate` computes some of them from the Pod as well."""

    slurm: str = ""
    """Field of `slurmclient.JobDescription` that carries it. `describe` computes some of them from several settings."""

    site_default: str = ""
    """Meaning of its key in `jobs.defaults`, for an administrator. Empty: a site cannot give a default."""

    key: str = ""
    """Key of `jobs.defaults` in snake case, where neither `request` nor the name is it."""

    @property
    def default_key(self) -> str:
        """Return the key of `jobs.defaults` in snake case."""
        return self.key or self.request or self.name.replace("-", "_")


ACCOUNT = Setting(
    "account",
    forms.WORD,
    "Account that is charged.",
    sunk="account",
    bridge="account",
    request="account",
    slurm="account",
    site_default="Account that is charged.",
)
PARTITION = Setting(
    "partition",
    forms.WORDS,
    "Partitions; the first that can start the job is used.",
    sunk="partition",
    bridge="partition",
    request="partition",
    slurm="partition",
    site_default="Partition, or several separated by commas.",
)
QOS = Setting(
    "qos",
    forms.WORD,
    "Quality of service; of several, separated by commas, Slurm takes the one with the highest priority.",
    sunk="qos",
    bridge="qos",
    request="qos",
    slurm="qos",
    site_default="Quality of service.",
)
RESERVATION = Setting(
    "reservation",
    forms.WORDS,
    "Reservation to run in.",
    sunk="reservation",
    bridge="reservation",
    request="reservation",
    slurm="reservation",
    site_default="Reservation to run in.",
)
WCKEY = Setting(
    "wckey",
    forms.WORD,
    "Workload characterisation key.",
    bridge="wckey",
    request="wckey",
    slurm="wckey",
    site_default="Workload characterisation key.",
)
COMMENT = Setting(
    "comment",
    forms.LINE,
    "Comment of the job.",
    sunk="comment",
    request="comment",
    slurm="comment",
    site_default="Comment; not given: which Pod it is.",
)
JOB_NAME = Setting(
    "job-name",
    forms.LINE,
    "Readable part of the job's name; the default is the Pod's `namespace/name`.",
    bridge="job-name",
    request="title",
    slurm="name",
)
CONSTRAINTS = Setting(
    "constraints",
    forms.LINE,
    "Features that the node must have (`--constraint`).",
    sunk="constraints",
    bridge="constraints",
    request="constraints",
    slurm="constraints",
    site_default="Features that the node must have.",
)
PREFER = Setting(
    "prefer",
    forms.LINE,
    "Features that the node should have (`--prefer`).",
    sunk="prefer",
    request="prefer",
    slurm="prefer",
    site_default="Features that the node should have.",
)
REQUIRED_NODES = Setting(
    "required-nodes",
    forms.NODES,
    "Nodes that the job must get. When one of them is deleted, the next restart of slurmctld ends the job.",
    sunk="required-nodes",
    request="required_nodes",
    slurm="required_nodes",
)
EXCLUDED_NODES = Setting(
    "excluded-nodes",
    forms.NODES,
    "Nodes that the job must not get.",
    sunk="excluded-nodes",
    request="excluded_nodes",
    slurm="excluded_nodes",
)
MIN_NODES = Setting(
    "min-nodes",
    forms.COUNT,
    "Minimum number of nodes; at most one for each Pod.",
    bridge="min-nodes",
    request="min_nodes",
    slurm="minimum_nodes",
)
MAX_NODES = Setting(
    "max-nodes",
    forms.COUNT,
    "Maximum number of nodes.",
    bridge="max-nodes",
    request="max_nodes",
    slurm="maximum_nodes",
)
EXCLUSIVE = Setting(
    "exclusive",
    forms.SHARING,
    "Jobs that may share the node. `none`: no other job; this one gets all CPUs (`--exclusive`). `user`: jobs of the "
    "same user. `mcs`: jobs with the same `mcs-label` (MCSPlugin=mcs/label; otherwise all jobs). `topo`: no other job "
    "on any node of its block (topology/block; otherwise all jobs). `ok`: all jobs, which may share its CPUs if the "
    "partition allows it (`--oversubscribe`). `node` and `true` mean `none`. `false` leaves the choice to the "
    "partition.",
    sunk="exclusive",
    bridge="exclusive",
    request="exclusive",
    slurm="shared",
    site_default="Jobs that may share the node; `none`: no other job.",
)
USER_ID = Setting(
    "user-id",
    forms.PERSON,
    "User of the job: a number, or a name of `slurm.users`.",
    sunk="user-id",
    bridge="user-id",
    slurm="user_id",
    site_default="User that jobs run as, by a name from `slurm.users` or as quoted number. Not given: the token's "
    "owner. SUNK's is '0'.",
)
GROUP_ID = Setting(
    "group-id",
    forms.PERSON,
    "Group of a job with a user: a number, or a name of `slurm.groups`. The default is the site's group for the site's "
    "user, the primary group of a named `user-id`, or the number of a numeric one.",
    sunk="group-id",
    bridge="group-id",
    slurm="group_id",
    site_default="Group that jobs run as, by a name from `slurm.groups` or as quoted number. Not given: the "
    "primary group of a userId that is a name, the same number as one that is a number.",
)
PRIORITY = Setting(
    "priority",
    forms.whole(0, forms.UINT32_LARGEST),
    "Priority of the job instead of the computed one; 0 holds the job.",
    sunk="priority",
    bridge="priority",
    request="priority",
    slurm="priority",
    site_default="Priority; 0 holds the job.",
)
NICE = Setting(
    "nice",
    forms.whole(-forms.NICE_LARGEST, forms.NICE_LARGEST),
    "Subtracted from the computed priority. A value below 0 needs the permission for `priority`.",
    request="nice",
    slurm="nice",
    site_default="Taken off the computed priority.",
)
WORKING_DIR = Setting(
    "current-working-dir",
    forms.PATH,
    "Working directory of the job.",
    sunk="current-working-dir",
    request="working_dir",
    slurm="current_working_directory",
    site_default="Working directory.",
)
TIME_LIMIT = Setting(
    "time-limit",
    forms.MINUTES,
    "Time limit of the job, in minutes or in the format of `sbatch --time` (`1-00:00:00`). The Pod gets SIGTERM "
    "earlier by its grace period. The default is `activeDeadlineSeconds`, the grace period and a minute for the start, "
    "rounded up to minutes. A site can declare that SUNK's key counts seconds.",
    sunk="timeout",
    bridge="timelimit",
    request="time_limit_minutes",
    slurm="time_limit_minutes",
    site_default="Time limit; a number counts minutes.",
    key="time_limit",
)
BEGIN = Setting(
    "begin",
    forms.INSTANT,
    "Earliest start; `now` is the creation of the Pod.",
    request="begin",
    slurm="begin_time",
)
DEADLINE = Setting(
    "deadline",
    forms.INSTANT,
    "Latest end; `now` is the creation of the Pod.",
    request="deadline",
    slurm="deadline",
)
DEPENDENCY = Setting(
    "dependency",
    forms.DEPENDENCY,
    "Jobs that must start or end before this one (`--dependency`).",
    request="dependency",
    slurm="dependency",
)
LICENSES = Setting(
    "licenses",
    forms.LINE,
    "Licences of the job (`--licenses`), in addition to those of the Pod's extended resources.",
    bridge="licenses",
    request="licenses",
    slurm="licenses",
    site_default="Licences that the job holds.",
)
GRES = Setting(
    "gres",
    forms.GRES,
    "GRES on the node, instead of those of the Pod's extended resources.",
    bridge="gres",
    request="tres_per_node",
    slurm="tres_per_node",
)
GPU_TYPE = Setting(
    "gpu-type",
    forms.TYPE,
    "Slurm's type of the GPUs, instead of the one from node affinity.",
)
CPUS = Setting(
    "cpus-per-task",
    forms.CPUS,
    "CPUs, instead of the Pod's requests; rounded up to whole ones.",
    bridge="cpu-per-task",
    request="cpus",
    slurm="cpus_per_task",
)
MEMORY = Setting(
    "mem-per-node",
    forms.MEBIBYTES,
    "Memory, instead of the Pod's requests; rounded up to MiB.",
    bridge="mem-per-node",
    request="memory_mb",
    slurm="memory_per_node_mb",
)
SWITCHES = Setting(
    "switches",
    forms.SWITCHES,
    "Maximum number of leaf switches of the nodes (`--switches`). `1@30` waits at most 30 minutes for them, then takes "
    "any nodes; times are in the format of `time-limit`.",
    request="switches",
    slurm="required_switches",
)
SEGMENT = Setting(
    "segment",
    forms.COUNT,
    "Number of nodes of a gang that must be in one block, with topology/block (`--segment`).",
    request="segment",
    slurm="segment_size",
)
ON_NODE_FAILURE = Setting(
    "on-node-failure",
    forms.word_of(OnNodeFailure),
    "Effect of a failed node on a gang: `end` (the default) ends the whole job, `keep` only the member there "
    "(`--no-kill`).",
    request="on_node_failure",
)
MCS_LABEL = Setting(
    "mcs-label",
    forms.WORD,
    "Label of Slurm's multi-category security.",
    request="mcs_label",
    slurm="mcs_label",
    site_default="Label of Slurm's multi-category security.",
)
MODE = Setting(
    "mode",
    forms.word_of(Mode),
    "Mode of the placeholder job ([modes](../concepts.md#modes)).",
    request="mode",
    site_default="How placeholders exist in Slurm: `batch` a script, `allocation` no process, `external` for nodes "
    "without slurmd, `auto` (also when not given) decided for each job from its nodes.",
)

GANG_RESTART = Setting(
    "gang-restart",
    forms.word_of(GangRestart),
    "Effect of the end of all members of a gang: `new-job` (the default) ends the job; with `keep-allocation` the job "
    "runs on for `gangs.replaceWithin`, and a restarted JobSet or a recreated group of a LeaderWorkerSet takes it "
    "over. Set it on the owner, or on all Pods.",
    request="restart",
)
GANG = Setting(
    "gang",
    forms.GANG,
    "Name of the gang of the Pod, together with `gang-size`. On a Job `true` or `false`; on a JobSet the Pods that are "
    "one gang: `job`, `replicated-job` or `set`.",
)
GANG_SIZE = Setting("gang-size", forms.GANG_SIZE, "Number of Pods in the gang that `gang` names.")
GANG_LAYOUT = Setting(
    "gang-layout",
    forms.word_of(GangLayout),
    "Nodes of the members of a gang: `spread` (the default) gives each a node of its own; `pack` makes them tasks of "
    "the job (`--ntasks`), on as few nodes as Slurm needs.",
    request="layout",
)

SETTINGS: tuple[Setting[Any], ...] = (
    *(ACCOUNT, PARTITION, QOS, RESERVATION, WCKEY, MCS_LABEL, JOB_NAME, COMMENT),
    *(CONSTRAINTS, PREFER, REQUIRED_NODES, EXCLUDED_NODES, MIN_NODES, MAX_NODES, SWITCHES, SEGMENT, EXCLUSIVE),
    *(CPUS, MEMORY, GRES, GPU_TYPE, LICENSES),
    *(TIME_LIMIT, BEGIN, DEADLINE, DEPENDENCY, PRIORITY, NICE),
    *(USER_ID, GROUP_ID, WORKING_DIR, MODE, ON_NODE_FAILURE),
    *(GANG, GANG_SIZE, GANG_LAYOUT, GANG_RESTART),
)

BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_SUNK_NAME = {setting.sunk: setting for setting in SETTINGS if setting.sunk}
BY_BRIDGE_NAME = {setting.bridge: setting for setting in SETTINGS if setting.bridge}

WITH_SITE_DEFAULT = tuple(setting for setting in SETTINGS if setting.site_default)

SUNK_NOT_SETTINGS = frozenset({"lock", "drain"})
"""Keys under SUNK's prefix that its own controllers write; they ask nothing of a job."""
