"""Which Node is which node of Slurm."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from extender.config.values import Duration, Group, Text
from extender.domain.node_causes import DrainRules, TaintRule


class SlurmdPods(Group):
    """Pods that run a slurmd. Each has the name of its Slurm node, and that is the Node on which it runs."""

    labels: Annotated[dict[Text, str], Field(min_length=1)] = Field(
        description="Labels that each of them has, and no other Pod.",
    )
    namespace: Text | None = Field(None, description="Their namespace; not given: any.")


_TAINT = re.compile(r"([^\s=:]+)(?:=([^\s=:]*))?(?::(NoSchedule|PreferNoSchedule|NoExecute))?")
_CONDITION = re.compile(r"([^\s=]+)(?:=(True|False|Unknown))?")


def _check_taint(value: str) -> str:
    if not _TAINT.fullmatch(value):
        raise ValueError("must be KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, as kubectl taint writes it")
    return value


def _check_condition(value: str) -> str:
    if not _CONDITION.fullmatch(value):
        raise ValueError("must be TYPE or TYPE=STATUS, where STATUS is True, False or Unknown")
    return value


class Drain(Group):
    """What Kubernetes says of a Node and Slurm is told by a drain, for as long as it is so. Drains of others stay."""

    cordoned: bool = Field(False, description="It is cordoned.")
    not_ready_after: Duration | None = Field(
        None, description="It is not Ready for so long, 30s for example; not given: that does not count."
    )
    deleted: bool = Field(
        False,
        description="It was deleted, and no other Node is that Slurm node. Not where Slurm goes on to use "
        "such machines alone.",
    )
    slurmd: bool = Field(True, description="The Pod of its slurmd (slurmdPods) ends, is gone, or is not Ready.")
    taints: tuple[Annotated[str, AfterValidator(_check_taint)], ...] = Field(
        (), description="It has one of these taints: KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT."
    )
    conditions: tuple[Annotated[str, AfterValidator(_check_condition)], ...] = Field(
        (), description="It has one of these conditions: TYPE, which is TYPE=True, or TYPE=STATUS."
    )

    @property
    def rules(self) -> DrainRules:
        """The same for the domain."""
        taints = [found.groups("") for each in self.taints if (found := _TAINT.fullmatch(each))]
        conditions = [found.groups("True") for each in self.conditions if (found := _CONDITION.fullmatch(each))]
        return DrainRules(
            cordoned=self.cordoned,
            not_ready_s=self.not_ready_after,
            deleted=self.deleted,
            slurmd=self.slurmd,
            taints=tuple(TaintRule(*each) for each in taints),
            conditions=tuple((kind, status) for kind, status in conditions),
        )


class Nodes(Group):
    """Nodes of both sides, and which is which.

    A Node says which node of Slurm it is by the label or annotation `slurm-extender.io/slurm-node`, or by
    slurm-bridge's, `slinky.slurm.net/slurm-nodename`; else the Pod of a slurmd, else the same name, else Slurm's
    NodeHostname.
    """

    drain: Drain = Field(Drain(), description="When Slurm is to start nothing on a Node.")
    by_name: bool | None = Field(
        None,
        description="Whether a Node is the Slurm node of its name, or of its name as NodeHostname, if nothing else "
        "says which it is. Not given: true without slurmdPods. With them false: a Slurm node must not be taken for "
        "another Node of its name while its slurmd is started again.",
    )
    slurmd_pods: SlurmdPods | None = Field(None, description="Where slurmd runs in Pods: which these are.")
