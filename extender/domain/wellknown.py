"""Every name that users, operators and other programs can see. No such literal stands anywhere else."""

from __future__ import annotations

from enum import StrEnum, unique

DOMAIN = "slurm-extender.io"

OWN_PREFIX = f"{DOMAIN}/"
"""Settings: annotations that users and administrators write; also taints, conditions and labels of the extender."""

STATUS_PREFIX = f"status.{DOMAIN}/"
"""Status: annotations that the extender writes on Pods, Nodes and its Lease. On a Pod none of them is a setting."""

SUNK_PREFIX = "sunk.coreweave.com/"
"""Settings as users of SUNK write them, on the Pod."""

BRIDGE_PREFIX = "slurmjob.slinky.slurm.net/"
"""Settings as users of slurm-bridge write them, on the Pod or its root owner."""

READ_PREFIXES = (OWN_PREFIX, STATUS_PREFIX, SUNK_PREFIX, BRIDGE_PREFIX, "slinky.slurm.net/")
"""How the keys of all annotations begin that are read, on Pods and on Nodes."""

GATE = f"{DOMAIN}/allocation"
"""Pod scheduling gate: the Pod waits for Slurm; kube-scheduler does not see it."""

OPT_IN_LABEL = f"{DOMAIN}/scheduler-name"
"""Namespace label: the scheduler name that new Pods there get which name none."""

OPT_OUT = f"{DOMAIN}/opt-out"
"""Pod annotation: `true` keeps the Pod with its own scheduler in a Namespace with the label."""

DEFAULT_SCHEDULER = "default-scheduler"
"""The API server's default of `spec.schedulerName`."""

JOB_ID_LABEL = f"{DOMAIN}/job-id"
"""Pod label: the placeholder job, for selectors and `kubectl get pods -L`. Nothing is decided by it."""

JOB_ID = f"{STATUS_PREFIX}job-id"
"""Pod annotation: the placeholder job. Written with the grant and with the Binding."""

NODE = f"{STATUS_PREFIX}node"
"""Pod annotation: the Node that Slurm allocated. Written with the grant and with the Binding."""

POD_UID = f"{STATUS_PREFIX}pod-uid"
"""Pod annotation: the UID of the Pod for which job and Node were written. A copy of a Pod has its original's."""

ALLOCATION_PROOF = f"{STATUS_PREFIX}allocation-proof"
"""Pod annotation: proves that the extender wrote job, Node and Slurm node for this Pod. See `AllocationRecords`."""

DEVICES = f"{STATUS_PREFIX}devices"
"""Pod annotation: the devices that Slurm allocated on the node, in Slurm's notation. Written with the Binding."""

GPUS = f"{STATUS_PREFIX}gpus"
"""Pod annotation: Slurm's indexes of the GPUs that it allocated, such as `0,1`. Written with the Binding."""

CANCELLED = f"{STATUS_PREFIX}cancelled"
"""Pod annotation: the job for which the Pod waited was cancelled. See `domain.jobs.cancelled`."""

REQUEUED_AT = f"{STATUS_PREFIX}requeued-at"
"""Pod annotation: when the extender, at its start, made kube-scheduler requeue the Pod."""

POD_SLURM_NODE = f"{STATUS_PREFIX}slurm-node"
"""Pod annotation: the Slurm node that its job got, written with the Binding. Another Node may be that later."""

SLURM_NODE = f"{DOMAIN}/slurm-node"
"""Node label or annotation, a setting: the Slurm name of this Node."""

RESTRICTED_SLURM_NODE = "node-restriction.kubernetes.io/slurm-node"
"""Node label, a setting: the Slurm name of this Node, where no kubelet can write it (admission plugin
NodeRestriction)."""

BRIDGE_SLURM_NODE = "slinky.slurm.net/slurm-nodename"
"""Node label or annotation, a setting: the Slurm name of this Node, as slurm-bridge and slurm-operator write it."""

ALLOCATED_CONDITION = f"{DOMAIN}/Allocated"
"""Pod condition: False while the Pod waits, with the cause; True once it is bound. See `domain.pods.why`."""

SLURM_AVAILABLE_CONDITION = f"{DOMAIN}/SlurmAvailable"
"""Node condition: False while Slurm starts nothing new there for a reason that is not Kubernetes' own."""

UNAVAILABLE_REASON = f"{STATUS_PREFIX}slurm-unavailable-reason"
"""Node annotation: why Slurm starts nothing new there, after the name of the extender's scheduler."""

UNAVAILABLE_TAINT = f"{DOMAIN}/slurm-unavailable"
"""Node taint: Slurm starts nothing new there, where the site wants a taint for it (`nodes.unavailableTaint`)."""

CORDONED_BY = f"{STATUS_PREFIX}cordoned-by"
"""Node annotation: the extender that cordoned the Node, since Slurm starts nothing new there. See
`domain.nodes.marks`."""

UNCORDONED_MANUALLY = f"{STATUS_PREFIX}uncordoned-manually"
"""Node annotation: the extender whose cordon an administrator lifted, and which does not repeat it for that cause."""

FENCE_EVIDENCE = f"{STATUS_PREFIX}fence-evidence"
"""Node annotation: when the fence script called last for this Slurm node, with a proof. See
`domain.nodes.fence_evidence`."""

DEVICE_REMINDER = f"{DOMAIN}/device-reminder"
"""ResourceClaim label: this one of the extender reminds kube-schedulers of a device that another one holds."""

CPUS = f"{DOMAIN}/cpus"
"""Node annotation, a setting: its Linux CPUs in the order of Slurm's cores. See `domain.devices.cpu_order`."""

DRAIN_REASON = f"{DOMAIN}/drain-reason"
"""Node annotation, a setting: why `kubectl slurm drain` cordoned the Node. See `domain.nodes.causes`."""

RELEASED_AT = f"{DOMAIN}/released-at"
"""Node annotation, a setting: when an administrator confirmed that no process of removed Pods runs there any more
(`kubectl slurm release`). The extender removes it once it has ended the drain holds."""

MANAGED_TAINT = f"{DOMAIN}/managed"
"""Node taint: Slurm decides which Pods start there (`nodes.managedTaint`)."""

NATIVE_JOB_TAINT = f"{DOMAIN}/native-job"
"""Node taint: a native job is there (`nodes.nativeJobTaint`)."""

NATIVE_JOBS = f"{STATUS_PREFIX}native-jobs"
"""Node annotation: the ids of native jobs there, after the name of the extender's scheduler."""

SCHEDULING_ADDRESS = f"{STATUS_PREFIX}scheduling-address"
"""Lease annotation: the leader's address for kube-scheduler, and for the replicas that forward its calls."""

HOOKS_ADDRESS = f"{STATUS_PREFIX}hooks-address"
"""Lease annotation: the leader's address for hooks, and for the replicas that forward them."""

HOLDER_LOCK = f"{STATUS_PREFIX}holder-lock"
"""Lease annotation: the name of the process lock of the leader (`assembly.process_lock`)."""

SCHEDULER_NAME = f"{STATUS_PREFIX}scheduler-name"
"""Lease annotation: the schedulerName of the Pods that the leader places. Two Leases with the same name are two
extenders that end each other's jobs."""

CHECKPOINT_PREFIX = f"checkpoint.{DOMAIN}/"
"""Starts the annotations of the Lease with the checkpoints, one for each writer (`domain.jobs.checkpoint`)."""

DRAIN_PREFIX = "slurm-extender:"
"""Starts the reason of every drain of the extender on a Slurm node; it never lifts a drain without it."""

GANG = f"{DOMAIN}/gang"
"""Pod annotation, a setting: the name of the Pod's gang; on a Job or JobSet, which of its Pods are one gang."""

GANG_SIZE = f"{DOMAIN}/gang-size"
"""Pod annotation, a setting: how many Pods the gang has."""

CONTAINERS_STARTED_CONDITION = f"{DOMAIN}/ContainersStarted"
"""Pod condition: False while a bound Pod has waited for longer than it may, and some container has yet to start."""

CONFIG_API_VERSION = f"{DOMAIN}/v1alpha1"
CONFIG_KIND = "ExtenderConfiguration"

GROUP_STATUS_MANAGER = "slurm-extender-pod-groups"
"""The field manager by which the API server knows the extender's part in the status of a PodGroup."""

GANG_LAYOUT = f"{DOMAIN}/gang-layout"
"""Pod annotation, a setting: how the members of a gang share nodes."""

GANG_RESTART = f"{DOMAIN}/gang-restart"
"""Pod annotation, a setting: what becomes of the job when all members of the gang have ended; on an owner as well."""

GANG_RANK = f"{STATUS_PREFIX}gang-rank"
"""Pod annotation: the rank of a member of a gang, from 0. Written with the Binding; the proof covers it."""

GANG_MEMBERS = f"{STATUS_PREFIX}gang-members"
"""Pod annotation: how many members the gang has. Written with the Binding; the proof covers it."""

GANG_KEY = f"{STATUS_PREFIX}gang-key"
"""Pod annotation: the key of the gang, as the mark of its job has it; the proof covers it. A bound member keeps its
gang after a restart, whatever its labels, its PodGroup or the policy say by then."""

GANG_NODES = f"{STATUS_PREFIX}gang-nodes"
"""Pod annotation: the Slurm nodes of the gang in the order of ranks, separated by commas. Written with the Binding."""

GANG_ANNOTATIONS = (GANG_RANK, GANG_MEMBERS, GANG_KEY, GANG_NODES)

STATUS_ANNOTATIONS = frozenset(
    {JOB_ID, NODE, POD_SLURM_NODE, POD_UID, ALLOCATION_PROOF, DEVICES, GPUS, CANCELLED, REQUEUED_AT, *GANG_ANNOTATIONS}
)
"""Every annotation that the extender writes on Pods."""


@unique
class Reason(StrEnum):
    """Reasons of the extender's Events. A condition that says the same has the same word as its reason.

    A member has the name of its value, without a leading `Slurm` where the rest is clear.
    """

    JOB_SUBMITTED = "SlurmJobSubmitted"
    JOB_GRANTED = "SlurmJobGranted"
    JOB_PENDING = "SlurmJobPending"
    JOB_REJECTED = "SlurmJobRejected"
    RETRYING = "SlurmRetrying"
    INVALID_SLURM_SETTINGS = "InvalidSlurmSettings"
    POLICY_UNUSABLE = "SlurmPolicyUnusable"
    """The site's policy could not be read since the start, so that nothing can be asked for the Pod."""

    POLICY_INVALID = "SlurmPolicyInvalid"
    """A changed policy file cannot be used; on the extender's own Pod."""

    POLICY_RESTORED = "SlurmPolicyRestored"
    UNKNOWN_SLURM_SETTING = "UnknownSlurmSetting"
    """A key of a peer that is not known here; the job is submitted anyway, as with the next three."""

    SETTING_WITHOUT_EFFECT = "SlurmSettingWithoutEffect"
    NOT_ACCOUNTED_BY_SLURM = "NotAccountedBySlurm"
    """Slurm sets less aside for the Pod than Kubernetes does."""

    WHOLE_NODE = "SlurmWholeNode"
    """The Pod requests no CPU or no memory, and the site gives such a Pod a node for itself."""

    NO_SUITABLE_NODE = "NoSuitableNode"
    """No node that there is could ever hold the Pod; it is submitted again when nodes change."""

    UNKNOWN_GPU_TYPE = "UnknownGpuType"
    JOB_UPDATED = "SlurmJobUpdated"
    """The extender changed the job to what the Pod asks for now."""

    JOB_UPDATE_REJECTED = "SlurmJobUpdateRejected"
    JOB_CANCELLED = "SlurmJobCancelled"
    ALLOCATION_LOST = "SlurmAllocationLost"
    POD_END_UNKNOWN = "PodEndUnknown"
    EVICTION_BLOCKED_BY_PDB = "EvictionBlockedByPDB"
    GRACE_PERIOD_SHORTENED = "GracePeriodShortened"
    ALLOCATION_RELEASED = "SlurmAllocationReleased"
    BOUND_WITHOUT_SLURM = "BoundWithoutSlurm"
    GANG_MEMBERS_DIFFER = "GangMembersDiffer"
    """The members of a gang request different sizes; Slurm sets the largest aside for each."""

    GANG_INCOMPLETE = "GangIncomplete"
    """Pods of a gang have not existed for a long time, or another controller holds them."""

    GANG_NODES_KEPT = "GangNodesKept"
    """Members of a gang have ended, and their nodes stay in its job."""

    POD_GROUP_STATUS_CONFLICT = "PodGroupStatusConflict"
    """Another controller writes the status of the Pod's PodGroup, so that the extender does not."""

    PODS_PLACED_ONE_BY_ONE = "PodsPlacedOneByOne"
    """Several Pods of one Job, JobSet or LeaderWorkerSet have a job each, and may start at different times."""

    STATUS_ANNOTATIONS_IGNORED = "StatusAnnotationsIgnored"
    """What the extender wrote on a Pod was written for another Pod, or by another client."""

    JOB_CHANGED_MANUALLY = "SlurmJobChangedManually"
    """A user changed the job in a way that matters to the owner of the Pod, and that ends nothing."""

    EVICTION_PAUSED = "EvictionPaused"
    POD_PATCH_FORBIDDEN = "PodPatchForbidden"
    """The API server does not let the extender remove its gate or write the node on the Pod."""

    CONTAINERS_NOT_STARTED = "ContainersNotStarted"
    """The Pod holds what Slurm gave it, and no container of it has started."""

    NODE_BUSY = "SlurmNodeBusy"
    NODE_MAPPING_CONFLICT = "SlurmNodeMappingConflict"
    NO_SLURM_NODE = "NoSlurmNode"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    """The Pod, or that of a slurmd, does not tolerate a taint that the site has put on the Nodes of Slurm."""

    NODE_OVERCOMMITTED = "SlurmNodeOvercommitted"
    """Of a Node: Slurm has no room for Pods on it that it did not place, and is kept from giving it away."""

    FOREIGN_PODS_NOT_RESERVED = "ForeignPodsNotReserved"
    """Of a Node: Slurm holds nothing for Pods on it that it did not place, and may give away what they use."""

    FOREIGN_PODS_RESERVED = "ForeignPodsReserved"
    """Of a Node: neither is so any more."""

    NO_WORKING_FENCE = "NoWorkingFence"
    """On the first Pod whose job is in no mode safe: the next job may start beside it."""

    CPUS_NOT_CHOSEN_BY_SLURM = "CpusNotChosenBySlurm"
    """Of a Node: the CPUs that Slurm allocates there are not transferred into ResourceClaims."""

    DEVICE_ALLOCATED_TWICE = "DeviceAllocatedTwice"
    """Another Pod has a device of this one."""

    RESTORE_SUSPECTED = "RestoreSuspected"
    """Of a Node: Pods that a restore of etcd took back may run on it."""

    NODE_NOT_REGISTERED = "SlurmNodeNotRegistered"
    """The Node is to be a node of Slurm, or another one than it is there, and cannot be."""


class Hook(StrEnum):
    """Environment variables of the batch placeholder."""

    URL = "SLURM_EXTENDER_HOOKS"
    TOKEN = "SLURM_EXTENDER_TOKEN"  # noqa: S105 (the name of a variable, not a secret)
    WAIT = "SLURM_EXTENDER_WAIT"


DEFAULT_GRACE_S = 30
"""Seconds; `terminationGracePeriodSeconds` where none is given (Kubernetes `core/v1/defaults.go`)."""
