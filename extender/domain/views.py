"""Represent Kubernetes objects as immutable values, with the fields that the extender needs.

`extender.kube.wire` reads them from JSON. Quantities stay the strings that the API server accepted; `quantity` gives
them meaning. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RESOURCE_CLAIMS = "resource claims"
"""The entry of `PodView.beyond` for ResourceClaims."""

COLLECTED = "DeletionByPodGC"
"""Reason of the condition that the garbage collector of Pods writes together with the phase."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container. `sidecar` marks an init container with `restartPolicy: Always` (KEP-753)."""

    name: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    host_ports: tuple[HostPort, ...] = ()
    sidecar: bool = False
    held: tuple[Mapping[str, str], ...] = ()
    """The allocated and actual resources that kubelet reports while they differ from the requests: a resize."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the machine that a container requests."""

    port: int
    protocol: str = "TCP"
    ip: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One `matchExpressions` or `matchFields` entry of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One term of a required node affinity; its entries are ANDed, terms are ORed."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    """One of `spec.tolerations`. An empty key or effect stands for all of them, an empty operator for `Equal`."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class AntiAffinity:
    """Hold one required anti-affinity term: it selects at least all Pods that the term selects.

    `labels`: labels that such a Pod must have; expressions of the term's selector are left out.
    """

    labels: tuple[tuple[str, str], ...] = ()
    namespaces: tuple[str, ...] = ()
    """Those named; empty: the namespace of the Pod whose term it is."""

    everywhere: bool = False
    """It selects namespaces by their labels, which are not known here."""


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """The controlling owner reference of an object."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Hold the end of a container that failed. `reason` is kubelet's: `Error`, `OOMKilled` ..."""

    container: str
    exit_code: int
    reason: str = ""
    signal: int = 0
    """The signal that ended it, where the container runtime reports it; 0 otherwise."""


@dataclass(frozen=True, slots=True)
class Allocated:
    """Hold the extender's condition on a Pod: why it waits, or that it does not."""

    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodResourceClaim:
    """One of `spec.resourceClaims`, with the name of its ResourceClaim."""

    name: str
    resource_claim: str = ""
    """The ResourceClaim that the Pod names, or that Kubernetes made for it from a template; "": it is not made yet."""

    needless: bool = False
    """Kubernetes has decided that none is needed."""

    template: str = ""
    """The ResourceClaimTemplate from which Kubernetes makes it; "": the Pod names the ResourceClaim itself."""


@dataclass(frozen=True, slots=True)
class ResourceClaimGres:
    """The GRES that the ResourceClaims of a Pod stand for by the site's map of devices."""

    gres: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """Why Slurm cannot choose their devices, a sentence each."""

    delegated: tuple[str, ...] = ()
    """A sentence for each ResourceClaim that is left to kube-scheduler."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A Pod. Absent lists are empty, absent strings are ""; `None` where absence itself means something."""

    uid: str
    namespace: str
    name: str
    resource_version: str = ""
    scheduler_name: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: OwnerReference | None = None
    created_at: float = 0.0
    deleted_at: float | None = None
    """`metadata.deletionTimestamp`: when the grace period ends, not when the deletion was asked."""

    deletion_grace_s: int | None = None
    """`metadata.deletionGracePeriodSeconds`, of a Pod that is ending."""

    node_name: str = ""
    phase: str = "Pending"
    nominated_node: str = ""
    gates: tuple[str, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Mapping[str, str] = field(default_factory=dict)
    pod_requests: Mapping[str, str] = field(default_factory=dict)
    """`spec.resources.requests` (KEP-2837); they win over the sum of the containers, resource by resource."""

    pod_limits: Mapping[str, str] = field(default_factory=dict)
    pod_held: tuple[Mapping[str, str], ...] = ()
    """As `held` of a container, for the Pod as a whole."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_terms: tuple[NodeTerm, ...] | None = None
    """Required node affinity. `None`: none given. An empty tuple matches no node."""

    tolerations: tuple[Toleration, ...] = ()
    anti_affinity: tuple[AntiAffinity, ...] = ()
    """Required anti-affinity terms: they bind other Pods too."""

    beyond: tuple[str, ...] = ()
    """Parts of the Pod on which kube-scheduler alone can judge a node, in words."""

    resource_claims: tuple[PodResourceClaim, ...] = ()
    extended_resource_claim: str = ""
    """`status.extendedResourceClaimStatus.resourceClaimName`: what kube-scheduler made for extended resources."""

    resource_claim_gres: ResourceClaimGres | None = None
    """The meaning of its ResourceClaims in Slurm, filled in before the translation; `None`: they have none."""

    host_network: bool = False
    priority_class: str = ""
    service_account: str = ""
    scheduling_group: str = ""
    """`spec.schedulingGroup.podGroupName` (KEP-4671, Kubernetes 1.36): the PodGroup of which it is a member."""

    workload_ref: str = ""
    """`spec.workloadRef` (Kubernetes 1.35 alone): the Workload, and its group there, as `name/podGroup`."""

    active_deadline_s: int | None = None
    grace_s: int = 30
    status_reason: str = ""
    """`status.reason`: `Evicted`, `DeadlineExceeded`, ... where Kubernetes itself failed the Pod."""

    status_message: str = ""
    failure: Failure | None = None
    """The container that ended with the highest exit code, if any failed."""

    unschedulable: str = ""
    """Why kube-scheduler could not place it at its last try: the message of its PodScheduled condition."""

    disruption: str = ""
    """Reason of its DisruptionTarget condition, while that is True."""

    allocated: Allocated | None = None
    """The extender's last condition about its wait; `None`: none."""

    generation: int = 0
    """`metadata.generation`; 0 before Kubernetes 1.33, where Pods have none."""

    ready: bool = False
    """Its Ready condition is True."""

    resize_refused: bool = False
    """kubelet says that the resize which the Pod asks for can never be done on its node."""

    of_its_node: bool = False
    """It belongs to its Node: a Pod of a DaemonSet, or a static one, which only its Node owns."""

    container_runs: bool = False
    """kubelet's last report on some container is that it runs."""

    bound_at: float | None = None
    """When it got its node, by its PodScheduled condition. `None`: it has none, or that is not known."""

    idle_since: float | None = None
    """Since when it has had its node while some container has yet to start for the first time, or since an init
    container ended well. `None`: that is not so, or an init container runs."""

    held_up: str = ""
    """Why its first container that waits does, in kubelet's words: `main: ImagePullBackOff`."""

    not_starting: bool = False
    """The extender's condition that says that it does not start is True."""

    @property
    def full_name(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Return whether the phase is Succeeded or Failed."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def ended(self) -> bool:
        """Return whether it is finished, and its kubelet reports that no container runs."""
        return self.finished and self.stopped

    @property
    def stopped(self) -> bool:
        """Return whether kubelet reports that no container runs any more, or none ever had the Pod.

        kubelet writes the phase when its last container has ended (`status_manager.go`, mergePodStatus), before it lets
        the Pod be removed. The garbage collector of Pods writes it too, about Nodes that are gone (`gc_controller.go`).
        """
        ended = self.finished and not self.container_runs and self.disruption != COLLECTED
        return ended or not self.node_name


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A Namespace, as far as a policy asks of it."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceClassView:
    """A DeviceClass, as far as Pods may ask for its devices as for an extended resource."""

    name: str
    uid: str = ""
    resource_version: str = ""
    resource: str = ""
    """`spec.extendedResourceName` (KEP-5004); "": none."""

    config: tuple[str, ...] = ()
    """The entries of `spec.config`, which go into each allocation, each as JSON."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a Node."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A Kubernetes Node."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, str] = field(default_factory=dict)
    cpus: str = ""
    """`status.capacity.cpu`."""

    internal_ip: str = ""
    """The first of its addresses of type InternalIP."""

    conditions: Mapping[str, str] = field(default_factory=dict)
    """Type and status."""

    ready: bool | None = None
    """The Ready condition: True, False, or `None` for Unknown and for a Node that has never reported."""

    heartbeat: float = 0.0
    """When kubelet last wrote that condition, by its own clock: every 5 min where nothing changes."""
