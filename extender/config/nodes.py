"""Which Node is which node of Slurm."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from extender.config.values import Group, Text


class SlurmdPods(Group):
    """Pods that run a slurmd. Each has the name of its Slurm node, and that is the Node on which it runs."""

    labels: Annotated[dict[Text, str], Field(min_length=1)] = Field(
        description="Labels that each of them has, and no other Pod.",
    )
    namespace: Text | None = Field(None, description="Their namespace; not given: any.")


class Nodes(Group):
    """Nodes of both sides, and which is which.

    A Node says which node of Slurm it is by the label or annotation `slurm-extender.io/slurm-node`, or by
    slurm-bridge's, `slinky.slurm.net/slurm-nodename`; else the Pod of a slurmd, else the same name, else Slurm's
    NodeHostname.
    """

    by_name: bool | None = Field(
        None,
        description="Whether a Node is the Slurm node of its name, or of its name as NodeHostname, if nothing else "
        "says which it is. Not given: true without slurmdPods. With them false: a Slurm node must not be taken for "
        "another Node of its name while its slurmd is started again.",
    )
    slurmd_pods: SlurmdPods | None = Field(None, description="Where slurmd runs in Pods: which these are.")
