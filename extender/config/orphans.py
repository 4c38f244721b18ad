"""Jobs without a Pod, and running Pods without a job."""

from __future__ import annotations

from pydantic import Field

from extender.config.values import Duration, Group


class Orphans(Group):
    """Jobs of ours without a Pod, and running Pods of ours without a job: both are ended.

    How many Pods may be ended at once says `limits.brake`; so it does for what counts as many jobs here. SIGUSR1 lets
    those go that are held back in either direction.
    """

    grace: Duration = Field(
        5.0, ge=1, description="How long the Pod of a job must be missing before the job is ended. At least 1 s."
    )
    many_grace: Duration = Field(
        600.0,
        ge=1,
        description="The same where many jobs have no Pod, counted anew at each start. An etcd restored from a backup "
        "has no Pods made since, which kubelets end then. Nothing tells since when they have been missing.",
    )
    dry_run: bool = Field(
        False,
        description="End neither; say in the log, in the metrics and under `/debug/orphans` what would be ended.",
    )
