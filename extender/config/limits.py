"""Paces, bounds and deadlines, and how missing Pods and jobs are handled."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from extender.config.values import Duration, Group


class MassDeletionGuardSettings(Group):
    """Stops mass evictions and cancellations that rest on missing information, until an administrator confirms them."""

    min_count: int = Field(
        5,
        ge=1,
        description="The extender always evicts the Pods of this number of missing jobs within the window; a "
        "gang has one job.",
    )
    max_fraction: float = Field(
        0.1, gt=0, le=1, description="The extender also evicts for this share of all placeholder jobs."
    )
    window: Duration = Field(60.0, gt=0, description="The window.")


class Polling(Group):
    """Polls of Slurm's job states."""

    min_interval: Duration = Field(
        0.2,
        ge=0.05,
        description="Shortest pause between two polls of Slurm's job states; at least ten times the duration of the "
        "last poll. At least 50 ms.",
    )
    max_interval: Duration = Field(1.0, gt=0, description="Longest pause while a placeholder job waits or runs.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_interval > self.max_interval:
            raise ValueError("minInterval is longer than maxInterval: it must be at most that")
        return self


class Retry(Group):
    """Retries."""

    initial_backoff: Duration = Field(1.0, gt=0, description="First pause before a failed request is retried.")
    max_backoff: Duration = Field(60.0, gt=0, description="Longest pause; each pause is twice the previous one.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.initial_backoff > self.max_backoff:
            raise ValueError("initialBackoff is longer than maxBackoff: it must be at most that")
        return self


class LimitSettings(Group):
    """Rates and bounds. The defaults suit clusters of up to some thousand nodes."""

    refresh_rate: float = Field(
        10.0,
        gt=0,
        le=1000,
        description="Number of jobs that are read in full each second, in turn, for details that states do not "
        "show. Every 5 s one of them is a job of others. If Slurm may announce a preemption, up to four times as "
        "many own jobs are read in addition.",
    )
    nodes_interval: Duration = Field(
        5.0, ge=0.5, description="Pause between two reads of Slurm's nodes and partitions; at least 500 ms."
    )
    requests: int = Field(
        8, ge=1, le=64, description="Maximum number of commands under way to Slurm, and separately to Kubernetes."
    )
    submit_confirmation_timeout: Duration = Field(
        60.0,
        ge=1,
        description="Time after a lost answer in which its job may still appear. Until then the extender does not "
        "submit again. At least 1 s.",
    )
    submit_confirmation_timeout_on_start: Duration = Field(
        2.0, ge=0, description="The same after a start of this process."
    )
    eviction_deadline: Duration | None = Field(
        None,
        ge=0,
        description="Maximum time for which disruption budgets delay an eviction that a user of Slurm caused; unset: "
        "`slurm.killWait`.",
    )
    max_pod_grace: Duration = Field(
        3600.0,
        ge=1,
        description="Longest terminationGracePeriodSeconds with which a Pod is accepted. After a removal without a "
        "kubelet report, the Pod's node takes no job for its grace period.",
    )
    max_grace: Duration = Field(
        600.0,
        ge=1,
        description="Longest grace period of a Pod that is ended because its job ends; a longer one is shortened, "
        "and an Event on the Pod reports it. At least 1 s.",
    )
    node_rejected_timeout: Duration = Field(
        3.0,
        gt=0,
        description="Time for which kube-scheduler's full lists must lack the granted node before it counts as "
        "refused.",
    )
    allocation_offer_timeout: Duration = Field(
        150.0,
        gt=0,
        description="Time for which a granted node waits for a call of kube-scheduler before the job is released: "
        "without a feasible node kube-scheduler does not call. Longer than its podMaxBackoffSeconds.",
    )
    history_retention: Duration = Field(
        60.0, ge=0, description="Time for which the history of a finished placeholder is kept."
    )


class Fences(Group):
    """Evidence that the fence script is installed on a Slurm node. Mode `auto` makes a job without a script only where
    every node that the job may get has it.
    """

    evidence: Duration = Field(
        86400.0,
        gt=0,
        description="Time for which a call of the fence script counts for its node. The script calls at each end of a "
        "placeholder job there; after this time without one, jobs on the node are batch jobs until the next call.",
    )
    call_within: Duration = Field(
        60.0,
        gt=0,
        description="How long after the end of a job and slurm.killWait its call may come. Without it the node counts "
        "as unfenced.",
    )


class StartupDeadlineSettings(Group):
    """Pods that hold what Slurm gave them and of which not every container has started: mostly an image that cannot be
    pulled. Those that run beside it, such as the sidecar of a mesh, are no start.

    Init containers that end well count as progress, from which the time counts again.
    """

    duration: Duration | None = Field(
        1800.0,
        gt=0,
        description="After this time the Pod gets the condition `slurm-extender.io/ContainersStarted=False` and an "
        "Event, and is counted. A rule of the policy file may give its Pods another time (`startupDeadline`). "
        "null: off.",
    )
    evict: bool = Field(False, description="Evict such a Pod, within disruption budgets, so that its node is released.")


class Orphans(Group):
    """Placeholder jobs without a Pod, and running Pods without their job: both are ended.

    `massDeletionGuard` bounds how many Pods and jobs are ended at once. SIGUSR1 confirms those that it holds back.
    """

    grace_period: Duration = Field(
        5.0,
        ge=1,
        description="Time for which the Pod of a job must be missing before the job is ended, if no checkpoint "
        "proves its deletion. At least 1 s.",
    )
    mass_grace_period: Duration = Field(
        600.0,
        ge=1,
        description="The same where many such jobs have no Pod, or a checkpoint shows that etcd was restored; counted "
        "from each start. A restored etcd has no Pods that were created since, and kubelets end them.",
    )
    dry_run: bool = Field(
        False,
        description="End neither; report them in the log, in the metrics and under `/debug/orphans`.",
    )
