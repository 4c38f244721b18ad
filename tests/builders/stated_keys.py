"""Reads one annotation or label of a Pod or Node, or an owner reference, by everything of the extender that reads it.

The keys come from the modules that define them: a new one is read from users unless it stands in `NOT_STATED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import ModuleType

from extender.domain import wellknown
from extender.domain.cluster import SlurmNode, SlurmSnapshot
from extender.domain.devices.cpu_order import NodeCpus
from extender.domain.gangs import labels as gang_labels
from extender.domain.gangs.context import ControllerView, GangContext, GroupView, ReplicatedJob, keeps_allocation
from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.one_by_one import parallel_of
from extender.domain.gangs.order import order_of
from extender.domain.gangs.recognition import group_of, recognise
from extender.domain.gangs.successes import success_of
from extender.domain.jobs.cancelled import recorded_cancel
from extender.domain.nodes.causes import DrainRules, NodeFacts, causes
from extender.domain.nodes.external_nodes import Unfit, slurm_name
from extender.domain.nodes.fence_evidence import FenceProofs, stated_times
from extender.domain.nodes.mapping import map_nodes
from extender.domain.nodes.marks import MarkRules, NodeStatus, change, marked, native_jobs_in, report
from extender.domain.pods.admission import opted_in
from extender.domain.pods.allocation_record import AllocationRecords, GangPlace
from extender.domain.translation.annotation_table import SETTINGS
from extender.domain.views import NodeView, OwnerReference, PodView
from extender.kube.wire.controllers import has_size
from extender.kube.wire.fields import Fields
from extender.kube.wire.meta import controlling_owner, names_an_object

OWNER = "o"

NOT_STATED = frozenset(
    {
        wellknown.GATE,
        wellknown.ALLOCATED_CONDITION,
        wellknown.SLURM_AVAILABLE_CONDITION,
        wellknown.CONTAINERS_STARTED_CONDITION,
        wellknown.UNAVAILABLE_TAINT,
        wellknown.MANAGED_TAINT,
        wellknown.NATIVE_JOB_TAINT,
        wellknown.OPT_IN_LABEL,
        wellknown.DEVICE_REMINDER,
        wellknown.SCHEDULING_ADDRESS,
        wellknown.HOOKS_ADDRESS,
        wellknown.HOLDER_LOCK,
        wellknown.SCHEDULER_NAME,
        wellknown.CONFIG_API_VERSION,
    }
)
"""No annotation or label of a Pod or Node: gates, conditions, taints, and what stands on other objects."""

COMPARED = frozenset(
    {
        wellknown.JOB_ID_LABEL,
        wellknown.DEVICES,
        wellknown.GPUS,
        wellknown.REQUEUED_AT,
        wellknown.GANG_NODES,
        wellknown.RELEASED_AT,
    }
)
"""Only written, or compared with the text that the extender wrote."""

SETTING_KEYS = frozenset(wellknown.OWN_PREFIX + one.name for one in SETTINGS)
"""`growth` reads them by the table of settings."""


def defined_keys() -> frozenset[str]:
    """Return every key of an annotation or label that the extender's modules define."""
    return frozenset(key for module in (wellknown, gang_labels) for key in _keys_of(module)) - NOT_STATED


def stated_keys() -> tuple[str, ...]:
    """Return the keys of which the extender reads the value."""
    return tuple(sorted(defined_keys() - COMPARED))


def _keys_of(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if name.isupper():
            found = value if isinstance(value, tuple | frozenset) else (value,)
            yield from (one for one in found if isinstance(one, str) and "/" in one and not one.endswith("/"))


class WatchedMap(Mapping[str, str]):
    """Record the keys that are read from annotations or labels."""

    def __init__(self, given: Mapping[str, str], seen: set[str]) -> None:
        self._given = given
        self._seen = seen

    def __getitem__(self, key: str) -> str:
        self._seen.add(key)
        return self._given[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


_JOB = OwnerReference("batch/v1", "Job", "train-a-0", "uid-job")
_JOB_SET = OwnerReference("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "uid-set")
_CONTROLLERS = (
    ControllerView(_JOB, {wellknown.GANG: "true"}, pods=2, most=2, indexed=True),
    ControllerView(_JOB_SET, {wellknown.GANG: "set"}, replicated=(ReplicatedJob("a", 2, 2),)),
)
_GROUPS = frozenset({GangSource.POD_GROUP, GangSource.COSCHEDULING, GangSource.VOLCANO})
_PLAIN = GangContext(group=lambda _: GroupView("uid-group", 2), groups_read=_GROUPS)
_IN_A_JOB = replace(_PLAIN, controllers=_CONTROLLERS[:1])
_IN_A_JOB_SET = replace(_PLAIN, controllers=_CONTROLLERS)
_ALLOCATION_RECORDS = AllocationRecords([b"key"], "cluster")

_MEMBERS: tuple[tuple[GangContext, Mapping[str, str], Mapping[str, str]], ...] = (
    (_PLAIN, {}, {}),
    (_PLAIN, {wellknown.GANG: "g", wellknown.GANG_SIZE: "2"}, {}),
    (
        _PLAIN,
        {gang_labels.KUEUE_SIZE: "2", gang_labels.KUEUE_INDEX_LABEL: "example.com/index"},
        {gang_labels.KUEUE_GROUP: "g", "example.com/index": "1"},
    ),
    (
        _PLAIN,
        {gang_labels.LWS_SIZE: "2"},
        {gang_labels.LWS_NAME: "l", gang_labels.LWS_GROUP_INDEX: "0", gang_labels.LWS_WORKER_INDEX: "1"},
    ),
    (_PLAIN, {}, {gang_labels.KUBEFLOW_TYPE: "worker", gang_labels.KUBEFLOW_INDEX: "1"}),
    (_IN_A_JOB, {}, {gang_labels.JOB_INDEX: "1"}),
    (
        _IN_A_JOB_SET,
        {},
        {
            gang_labels.JOBSET_NAME: "train",
            gang_labels.JOBSET_UID: "uid-set",
            gang_labels.JOBSET_REPLICATED_JOB: "a",
            gang_labels.JOB_INDEX: "1",
        },
    ),
)
"""Context, annotations and labels of a member of each kind of gang."""


def read_pod_key(key: str, text: str, seen: set[str] | None = None) -> None:
    """Read Pods of every kind with this annotation and label. `seen` gets the keys that were looked up."""
    seen = set() if seen is None else seen
    for context, noted, labels in _MEMBERS:
        pod = _pod({**noted, key: text}, {**labels, key: text}, seen)
        if context.controllers:
            pod = replace(pod, owner=context.controllers[0].owner)
        recognise(pod, context)
        parallel_of(pod)
        keeps_allocation(pod, context.controllers)
        order_of(pod)
        group_of(pod)
        success_of(replace(pod, phase="Succeeded"))
    _indexed_by(key, text, seen)
    annotations = _ALLOCATION_RECORDS.written(7, "n", "u", "n", GangPlace(0, 2, "g"))
    _ALLOCATION_RECORDS.read(WatchedMap({**annotations, key: text}, seen), "u")
    plain = _pod({key: text}, {}, seen)
    recorded_cancel(plain)
    opted_in(plain)


def _indexed_by(key: str, text: str, seen: set[str]) -> None:
    """Read a Pod of Kueue whose index is in the label that the text names."""
    if key == gang_labels.KUEUE_INDEX_LABEL:
        given = {gang_labels.KUEUE_SIZE: "2", key: text}
        recognise(_pod(given, {gang_labels.KUEUE_GROUP: "g", text: text}, seen), _PLAIN)


def _pod(annotations: Mapping[str, str], labels: Mapping[str, str], seen: set[str]) -> PodView:
    return PodView("u", "ns", "p", annotations=WatchedMap(annotations, seen), labels=WatchedMap(labels, seen))


_RULES = MarkRules(OWNER, "NoSchedule", True, "NoSchedule", "NoSchedule")
_PROOFS = FenceProofs([b"key"], "cluster", OWNER)
_SLURM = SlurmSnapshot(nodes={"n": SlurmNode("n")})


def read_node_key(key: str, text: str, seen: set[str] | None = None) -> None:
    """Read Nodes with this annotation and label, bare and behind the name of the extender that wrote it."""
    seen = set() if seen is None else seen
    for said in (text, f"{OWNER}: {text}", f"{OWNER}: v1.{text}"):
        given = WatchedMap({key: said}, seen)
        node = NodeView("n", "u", labels=given, annotations=given, unschedulable=True, cpus="8")
        map_nodes([node], _SLURM)
        causes(NodeFacts("n", node), DrainRules())
        marked(node, OWNER)
        for status in (NodeStatus(), NodeStatus(managed=True, jobs=(7,))):
            report(node, status, _RULES)
            change(node, status, _RULES)
        native_jobs_in(node, OWNER)
        evidence = node.annotations.get(wellknown.FENCE_EVIDENCE, "")
        _PROOFS.is_foreign(evidence)
        _PROOFS.read(evidence, node.uid, "n")
        stated_times(evidence, OWNER)
        for read, own in ((slurm_name, Unfit), (_cpus, ValueError)):
            try:
                read(node)
            except own:
                continue


def _cpus(node: NodeView) -> object:
    return NodeCpus.of(node, None).order()


def read_owner(field: str, text: str) -> object:
    """Read a Pod with this text in one field of its owner reference."""
    said = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True, field: text}
    owner = controlling_owner(Fields("object", {"ownerReferences": [said]}))
    assert owner is not None
    names_an_object(owner)
    has_size(owner)
    pod = PodView("u", "ns", "p", annotations={wellknown.GANG: "true"}, owner=owner)
    context = replace(_PLAIN, controllers=(ControllerView(owner, pods=2, most=2),))
    return recognise(pod, context), parallel_of(pod)


def read_group(field: str, text: str) -> object:
    """Read a Pod with this text in the field of its specification that names its group."""
    named = {"scheduling_group": "", "workload_ref": "", field: text}
    pod = PodView("u", "ns", "p", scheduling_group=named["scheduling_group"], workload_ref=named["workload_ref"])
    return recognise(pod, _PLAIN), parallel_of(pod), group_of(pod)


def keys_read() -> frozenset[str]:
    """Return the keys that these readers look up."""
    seen: set[str] = set()
    for key in stated_keys():
        read_pod_key(key, "1", seen)
        read_node_key(key, "1", seen)
    return frozenset(seen)
