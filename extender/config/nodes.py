"""Nodes of both sides: their mapping, drains, marks, and registration in Slurm."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, StringConstraints, model_validator

from extender.config.domain_groups import InDocument
from extender.config.selectors import LabelSelector
from extender.config.values import Duration, Group, Text
from extender.domain.nodes.causes import DrainRules, TaintRule
from extender.domain.nodes.external_nodes import VALUE, FeatureRule, SettleDelays
from extender.domain.nodes.mapping import Pairing
from extender.domain.nodes.marks import is_mark
from extender.domain.nodes.slurmds import SlurmdSelector


class SlurmdPods(Group):
    """Pods that run a slurmd. Each has the name of its Slurm node, and that is the Node on which it runs."""

    labels: Annotated[dict[Text, str], Field(min_length=1)] = Field(
        description="Labels that each of them has, and no other Pod.",
    )
    namespace: Text = Field(
        description="Their namespace. Who may create Pods there decides which Node a Slurm node is.",
    )


_TAINT = re.compile(r"([^\s=:]+)(?:=([^\s=:]*))?(?::(NoSchedule|PreferNoSchedule|NoExecute))?")
_CONDITION = re.compile(r"([^\s=]+)(?:=(True|False|Unknown))?")


def _read_taint(text: str) -> TaintRule:
    found = _TAINT.fullmatch(text)
    if found is None:
        raise ValueError("must be KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, as kubectl taint writes it")
    return TaintRule(_no_mark(found[1]), found[2] or "", found[3] or "")


def _read_condition(text: str) -> tuple[str, str]:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError("must be TYPE or TYPE=STATUS, where STATUS is True, False or Unknown")
    return _no_mark(found[1]), found[2] or "True"


def _no_mark(key: str) -> str:
    """Refuse marks that extenders write on Nodes, and what Kubernetes makes of them (`domain.nodes.marks`)."""
    if is_mark(key):
        raise ValueError(
            "never counts: it must not begin with slurm-extender.io/, which an extender writes for Slurm's sake, nor "
            "be node.kubernetes.io/unschedulable, for which there is nodes.drain.cordoned"
        )
    return key


_Taint = Annotated[str, AfterValidator(_read_taint), PlainSerializer(lambda rule: rule.text, return_type=str)]
_Condition = Annotated[str, AfterValidator(_read_condition), PlainSerializer("=".join, return_type=str)]
Effect = Literal["NoSchedule", "NoExecute"]


class _Drain:
    """States of a Node that drain its Slurm node for as long as they last. Drains of others stay."""

    cordoned = Field(description="It is cordoned, and not by an extender (`nodes.unavailableCordon`).")
    not_ready_after: Duration | None = Field(description="It is not Ready for this time; null: ignored.")
    deleted = Field(
        description="It was deleted, and no other Node is that Slurm node. Turn it off if Slurm continues to use "
        "such machines alone.",
    )
    slurmd = Field(description="Its slurmd Pod (slurmdPods) ends, is gone, or is not Ready.")
    taints: tuple[_Taint, ...] = Field(
        description="It has one of these taints: KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT."
    )
    conditions: tuple[_Condition, ...] = Field(
        description="It has one of these conditions: TYPE, which is TYPE=True, or TYPE=STATUS."
    )


Drain = Annotated[DrainRules, InDocument(_Drain)]


class ManagedTaint(Group):
    """The taint `slurm-extender.io/managed`, which keeps Pods of other schedulers off the Nodes of Slurm."""

    effect: Effect | None = Field(
        None,
        description="Its effect. NoExecute also ends the Pods that are there. Pods of this scheduler need its "
        "toleration (docs/nodes.md). Unset: no taint, and that of the extender is removed.",
    )


class NativeJobTaint(Group):
    """The taint `slurm-extender.io/native-job`, which a Node has while a job runs there that is no placeholder."""

    effect: Effect | None = Field(
        None,
        description="Its effect. `slurm-extender generate lock-script` makes the taint arrive before the job starts. "
        "Unset: no taint.",
    )


class UnavailableTaint(Group):
    """The taint `slurm-extender.io/slurm-unavailable`, which a Node has while its Slurm node is not available."""

    effect: Effect | None = Field(
        None,
        description="Its effect. Where slurmds run in Pods: not because one is DOWN or does not respond, which would "
        "keep its own next Pod off. Unset: no taint.",
    )


def _check_feature(value: str) -> str:
    FeatureRule("x", value)
    return value


class _Feature:
    """One line of the map from labels of Nodes to features of their nodes in Slurm."""

    label: Text = Field(description="Key of the label.")
    value = Field(description="Only with this value; unset: with any.")
    feature: Annotated[Text, AfterValidator(_check_feature)] = Field(
        description=f"The feature. `{VALUE}` is the label's value.",
    )
    node_set = Field(
        description="slurm.conf has a NodeSet of it: when a Node gets or loses it, its node is emptied and made again, "
        "since Slurm works out node sets when a node is made and at `scontrol reconfigure` alone.",
    )


Feature = Annotated[FeatureRule, InDocument(_Feature)]


UnitName = Annotated[Text, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+$")]


class TopologyUnits(Group):
    """Place of nodes in one of Slurm's topologies."""

    topology: UnitName = Field(description="Its name in topology.yaml.")
    under: UnitName | None = Field(
        None,
        description="A switch of topology.yaml. Slurm creates missing switches below it; every other unit, a block "
        "for example, has to be in topology.yaml already.",
    )
    labels: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        description="Labels whose values are the names of the units, from the outermost to the innermost: zone, rack. "
        "A Node that lacks one of them is not placed in this topology."
    )


class External(Group):
    """Nodes that are registered in Slurm as external ones, without a slurmd (Slurm 25.11.6 or newer;
    docs/nodes.md).

    What is asked of Slurm follows the Node: allocatable less what the Pods of DaemonSets and static Pods request, its
    GPUs by `jobs.gres` and `jobs.gpuTypes`. Slurm nodes that others made are left alone. A Node without the labels
    any more is taken out again; without this group nothing is changed, and what was registered stays.
    """

    selector: LabelSelector = Field(description="Selected Nodes; at least one requirement is needed.")
    node_sets: tuple[Annotated[Text, AfterValidator(_check_feature)], ...] = Field(
        (),
        description="Features of every registered node. slurm.conf makes partitions of them: "
        "`NodeSet=k8s Feature=k8s`, `PartitionName=k8s Nodes=k8s`.",
    )
    features: tuple[Feature, ...] = Field((), description="Features by labels.")
    topology: tuple[TopologyUnits, ...] = Field((), description="Topologies by labels.")
    settle: Duration = Field(
        30.0,
        ge=1,
        description="Time for which a Node must have another size, or be gone, before its node is drained; 30s if "
        "unset. A kubelet or device plugin that restarts reports incomplete sizes at first.",
    )
    remove: bool = Field(False, description="Delete every registered node in Slurm, independent of the selector.")

    @model_validator(mode="after")
    def _not_everything(self) -> Self:
        if not (self.selector.match_labels or self.selector.match_expressions):
            raise ValueError(
                "selector selects every Node, control planes and those with a slurmd among them: it must name a label "
                "with matchLabels or matchExpressions"
            )
        return self


class NodeSettings(Group):
    """Nodes of both sides, and which is which.

    A Node says which node of Slurm it is by the label or annotation `slurm-extender.io/slurm-node`, or by
    slurm-bridge's, `slinky.slurm.net/slurm-nodename`; else the Pod of a slurmd, else the same name, else Slurm's
    NodeHostname.
    """

    drain: Drain = Field(DrainRules(), description="Causes for which the Slurm node of a Node is drained.")
    managed_taint: ManagedTaint = Field(
        ManagedTaint(),
        description="Keep Pods of other schedulers off the Nodes of Slurm by the taint `slurm-extender.io/managed`.",
    )
    native_job_taint: NativeJobTaint = Field(
        NativeJobTaint(),
        description="Lock a Node by the taint `slurm-extender.io/native-job` while a job runs there that is no "
        "placeholder.",
    )
    unavailable_taint: UnavailableTaint = Field(
        UnavailableTaint(),
        description="Taint a Node with `slurm-extender.io/slurm-unavailable`, besides its condition, while its Slurm "
        "node is DRAIN, DOWN, FAIL, MAINT or not responding. The taint is removed when Slurm is well again. Drains of "
        "an extender count for nothing here. docs/nodes.md says more.",
    )
    unavailable_cordon: bool = Field(
        False,
        description="Cordon a Node where Slurm starts nothing, as with unavailableTaint. A Node that was cordoned "
        "already stays as it is; a Node that an administrator uncordons stays so until its Slurm node is available "
        "again.",
    )
    by_name: bool | None = Field(
        None,
        description="Whether a Node is the Slurm node of its name, or of its name as NodeHostname, if nothing else "
        "says which it is. Unset: true without slurmdPods. With them false: a Slurm node must not be taken for "
        "another Node of its name while its slurmd is started again.",
    )
    restricted_label_only: bool = Field(
        False,
        description="Of the statements of a Node, use only the label "
        "`node-restriction.kubernetes.io/slurm-node`, which "
        "kubelets cannot write where the admission plugin NodeRestriction is on. Otherwise a kubelet can say of its "
        "own Node which Slurm node it is, though not that it is another Node.",
    )
    external: External | None = Field(None, description="Nodes without slurmd that the extender registers in Slurm.")
    slurmd_pods: SlurmdPods | None = Field(
        None, description="Selector of the Pods that run slurmd, if slurmd runs in Pods."
    )

    @property
    def pairing(self) -> Pairing:
        """Return how a Node is matched with its Slurm node."""
        by_name = self.slurmd_pods is None if self.by_name is None else self.by_name
        return Pairing(by_name, self.restricted_label_only)

    @property
    def slurmd_selector(self) -> SlurmdSelector:
        """Return the selector of Pods that run slurmd."""
        given = self.slurmd_pods
        return SlurmdSelector() if given is None else SlurmdSelector(given.labels, given.namespace)

    @property
    def settle_delays(self) -> SettleDelays:
        """Return how long a Node must differ from its Slurm node before that is drained."""
        return SettleDelays() if self.external is None else SettleDelays(self.external.settle)
