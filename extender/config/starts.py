"""Pods that have their node and do not start."""

from __future__ import annotations

from pydantic import Field

from extender.config.values import Duration, Group


class Starts(Group):
    """Pods that hold what Slurm gave them and of which not every container has started: mostly an image that cannot be
    pulled. Those that run beside it, such as the sidecar of a mesh, are no start.

    Init containers that end well count as progress, from which the time counts anew.
    """

    limit: Duration | None = Field(
        1800.0,
        gt=0,
        description="After this time the Pod gets the condition `slurm-extender.io/ContainersStarted=False` and an "
        "Event, and is counted. A rule of the policy file may say another time for its Pods (`startLimit`). null: off.",
    )
    evict: bool = Field(
        False, description="Evict such a Pod besides, disruption budgets respected, so that its node is given back."
    )
