"""Every name that users, operators and other programs can see. No such literal stands anywhere else."""

from __future__ import annotations

from enum import StrEnum

DOMAIN = "slurm-extender.io"

OWN_PREFIX = f"{DOMAIN}/"
"""Settings on a Pod, read by us."""

SUNK_PREFIX = "sunk.coreweave.com/"
"""Settings as users of SUNK write them, on the Pod."""

BRIDGE_PREFIX = "slurmjob.slinky.slurm.net/"
"""Settings as users of slurm-bridge write them, on the Pod or its root owner."""

READ_PREFIXES = (OWN_PREFIX, SUNK_PREFIX, BRIDGE_PREFIX, "slinky.slurm.net/")
"""How the keys of all annotations begin that are read, on Pods and on Nodes."""

GATE = f"{DOMAIN}/allocation"
"""The scheduling gate of a Pod that waits for Slurm."""

JOB_ID = f"{DOMAIN}/job-id"
"""Pod annotation: the placeholder job. Written with the grant and with the Binding."""

NODE = f"{DOMAIN}/node"
"""Pod annotation: the Kubernetes node that Slurm gave. Written with the grant and with the Binding."""

POD_UID = f"{DOMAIN}/pod"
"""Pod annotation: the UID of the Pod for which job and node were written. A copy of a Pod bears its model's."""

ALLOCATION_PROOF = f"{DOMAIN}/claim-proof"
"""Pod annotation: proves that the extender wrote job, node and Slurm node for this Pod. See `domain.pods.claim`."""

DEVICES = f"{DOMAIN}/devices"
"""Pod annotation: the devices that Slurm gave on the node, in its words. Written with the Binding."""

GPUS = f"{DOMAIN}/gpus"
"""Pod annotation: Slurm's numbers of the GPUs among them, such as `0,1`."""

CANCELLED = f"{DOMAIN}/cancelled"
"""Pod annotation: somebody cancelled the job for which the Pod waited. See `domain.cancelled`."""

REQUEUED_AT = f"{DOMAIN}/woken"
"""Pod annotation: when a start of the extender made kube-scheduler ask for the Pod anew."""

SLURM_NODE = f"{DOMAIN}/slurm-node"
"""Node label or annotation: the Slurm name of this Node. Pod annotation: the Slurm node that its job gave, written with
the Binding, since another Node may be that later."""

RESTRICTED_SLURM_NODE = "node-restriction.kubernetes.io/slurm-node"
"""Node label: the same, where no kubelet can write it (admission plugin NodeRestriction)."""

BRIDGE_SLURM_NODE = "slinky.slurm.net/slurm-nodename"
"""Node label or annotation of slurm-bridge and slurm-operator: the Slurm name of this Node."""

UNAVAILABLE_REASON = f"{DOMAIN}/slurm-unavailable"
"""Node annotation: why Slurm starts nothing new there, behind the name of the extender's scheduler."""

ALLOCATED_CONDITION = f"{DOMAIN}/Allocated"
"""Pod condition: False while the Pod waits, with why; True once it is bound to what Slurm gave. See `domain.why`."""

SLURM_AVAILABLE_CONDITION = f"{DOMAIN}/SlurmUnavailable"
"""Node condition: True while Slurm starts nothing new there for a reason that is not Kubernetes' own."""

UNAVAILABLE_TAINT = UNAVAILABLE_REASON
"""Node taint for the same, where the site wants one (`nodes.mark.taint`)."""

CORDONED_BY = f"{DOMAIN}/cordoned"
"""Node annotation: the extender that cordoned the Node for the same. See `domain.nodes.marks`."""

DRAIN_REASON = f"{DOMAIN}/drain-reason"
"""Node annotation: `kubectl slurm drain` has cordoned the Node, and what for. See `domain.nodes.causes`."""

RELEASED_AT = f"{DOMAIN}/released"
"""Node annotation: an administrator says that nothing of removed Pods runs there any more (`kubectl slurm release`).
The extender takes it away once it has ended the holds."""

MANAGED_TAINT = f"{DOMAIN}/managed"
"""Node taint: Slurm says what starts there (`nodes.taint`)."""

NATIVE_JOB_TAINT = f"{DOMAIN}/native-job"
"""Node taint: a job of Slurm's own is there (`nodes.lock`)."""

NATIVE_JOBS = f"{DOMAIN}/native-jobs"
"""Node annotation: which jobs these are, behind the name of the extender's scheduler."""

SCHEDULING_ADDRESS = f"{DOMAIN}/scheduling-address"
"""Lease annotation: where the leader is called by kube-scheduler, and by the other replicas in its name."""

HOOKS_ADDRESS = f"{DOMAIN}/hooks-address"
"""Lease annotation: the same for hooks."""

SCHEDULER_NAME = f"{DOMAIN}/scheduler"
"""Lease annotation: whose Pods the leader places, by their schedulerName. Two Leases with the same are two extenders
that end each other's jobs."""

DRAIN_PREFIX = "slurm-extender:"
"""Starts the reason of every drain that we put on a Slurm node; a drain without it is never lifted by us."""

CONTAINERS_STARTED_CONDITION = f"{DOMAIN}/NotStarting"
"""Pod condition: True while it has its node for longer than it may, and some container of it has yet to start."""

CONFIG_API_VERSION = f"{DOMAIN}/v1alpha1"
CONFIG_KIND = "ExtenderConfiguration"
POLICY_KIND = "PodPolicy"

STATUS_ANNOTATIONS = frozenset(
    {JOB_ID, NODE, SLURM_NODE, POD_UID, ALLOCATION_PROOF, DEVICES, GPUS, CANCELLED, REQUEUED_AT}
)
"""Keys under our own prefix that are not settings."""


class Reason(StrEnum):
    """Reasons of our Kubernetes Events."""

    SUBMITTED = "SlurmJobSubmitted"
    GRANTED = "SlurmJobGranted"
    WAITING = "SlurmJobPending"
    REFUSED = "SlurmJobRejected"
    RETRYING = "SlurmRetrying"
    INVALID = "InvalidSlurmSettings"
    NO_POLICY = "SlurmPolicyUnusable"
    """The site's policy could not be read since the start, so that nothing can be asked for the Pod."""

    POLICY_BROKEN = "SlurmPolicyInvalid"
    """A changed policy file cannot be used; on the extender's own Pod."""

    POLICY_MENDED = "SlurmPolicyRestored"
    UNKNOWN_SETTING = "UnknownSlurmSetting"
    """A key of a peer that is not known here; the job is asked for all the same, as with the next three."""

    WITHOUT_EFFECT = "SlurmSettingWithoutEffect"
    UNACCOUNTED = "NotAccountedBySlurm"
    """Slurm sets less aside for the Pod than Kubernetes does."""

    NO_SUITABLE_NODE = "NoSuitableNode"
    """No node that there is could ever hold the Pod; it is asked for again when nodes change."""

    UNKNOWN_GPU_TYPE = "UnknownGpuType"
    CHANGED = "SlurmJobChanged"
    NOT_CHANGED = "SlurmJobUpdateRejected"
    CANCELLED = "SlurmJobCancelled"
    LOST = "SlurmAllocationLost"
    END_UNKNOWN = "PodEndUnknown"
    BUDGET = "EvictionBlockedByPDB"
    SHORTENED = "GracePeriodShortened"
    GIVEN_BACK = "SlurmAllocationReleased"
    BOUND_ELSEWHERE = "BoundWithoutSlurm"
    CLAIM_IGNORED = "StatusAnnotationsIgnored"
    """What the extender wrote on a Pod was written for another Pod, or by somebody else."""

    CHANGED_BY_HAND = "SlurmJobChanged"
    """Somebody changed the job in a way that the Pod's people should know of, and that ends nothing."""

    HELD = "EvictionPaused"
    GRANT_NOT_WRITTEN = "PodPatchForbidden"
    """The API server does not let us take our gate away or write the node on the Pod."""

    CONTAINERS_NOT_STARTED = "ContainersNotStarted"
    """The Pod holds what Slurm gave it, and no container of it has started."""

    NODE_BUSY = "SlurmNodeBusy"
    NODE_UNCLEAR = "SlurmNodeMappingConflict"
    NODE_ALONE = "NoSlurmNode"
    NOT_TOLERATED = "TaintNotTolerated"
    """The Pod, or that of a slurmd, does not tolerate a taint that the site has put on the Nodes of Slurm."""

    OVERCOMMITTED = "SlurmNodeOvercommitted"
    """Of a Node: Slurm has no room for Pods on it that it did not place, and is kept from giving it away."""

    NOT_HELD = "ForeignPodsNotReserved"
    """Of a Node: Slurm holds nothing for Pods on it that it did not place, and may give away what they use."""

    ALL_HELD = "ForeignPodsReserved"
    """Of a Node: neither is so any more."""

    NODE_NOT_REGISTERED = "SlurmNodeNotRegistered"
    """The Node is to be a node of Slurm, or another one than it is there, and cannot be."""


class Hook(StrEnum):
    """Environment variables of the batch placeholder."""

    URL = "SLURM_EXTENDER_HOOKS"
    TOKEN = "SLURM_EXTENDER_TOKEN"  # noqa: S105 (the name of a variable, not a secret)
    WAIT = "SLURM_EXTENDER_WAIT"
