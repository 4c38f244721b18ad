"""The state of slurmctld: which instances answer, its counters, its configuration, and its licenses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmclient.capabilities import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPing:
    """Describe one slurmctld, primary or backup.

    Attributes:
        hostname: where it should run.
        responding: it answered slurmrestd just now.
        primary: it is the first in slurm.conf.
        latency_us: of the answer, microseconds; None if there was none.
    """

    hostname: str
    responding: bool
    primary: bool
    latency_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Hold the answer of slurmrestd to a ping. It checks no token, and slurmctld is up only if `responding`.

    Attributes:
        controllers: every slurmctld configured.
        release: of slurmrestd.
        cluster: name; empty if the release does not say.
    """

    controllers: tuple[ControllerPing, ...]
    release: Release
    cluster: str

    @property
    def responding(self) -> bool:
        """Return whether a slurmctld answered."""
        return any(controller.responding for controller in self.controllers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Hold the counters of slurmctld since their last reset (sdiag(1)).

    Attributes:
        server_thread_count: RPC threads at work; 256 is the limit.
        agent_queue_size: messages to nodes that wait.
        jobs_submitted: since the reset.
        jobs_started: since the reset.
        jobs_completed: since the reset.
        jobs_canceled: since the reset.
        jobs_failed: since the reset.
        jobs_pending: now.
        jobs_running: now.
        schedule_cycle_last_us: length of the last main scheduling pass, microseconds.
        schedule_cycle_mean_us: mean of these.
        backfill_active: a backfill pass runs now.
        backfill_cycle_last_us: length of the last backfill pass, microseconds.
        raw: everything sent, by Slurm's names.
    """

    server_thread_count: int | None
    agent_queue_size: int | None
    jobs_submitted: int | None
    jobs_started: int | None
    jobs_completed: int | None
    jobs_canceled: int | None
    jobs_failed: int | None
    jobs_pending: int | None
    jobs_running: int | None
    schedule_cycle_last_us: int | None
    schedule_cycle_mean_us: int | None
    backfill_active: bool
    backfill_cycle_last_us: int | None
    raw: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConf:
    """Hold slurm.conf as slurmctld uses it.

    Attributes:
        preempt_mode: upper-case words of the whole cluster: CANCEL, REQUEUE, SUSPEND, and GANG, which no partition
            shows, whatever its own PreemptMode says.
        preempt_type: the plugin: `preempt/partition_prio`, `preempt/qos`; "" for none, or where it is not said.
        gres_types: names of GresTypes.
        raw: everything sent, by Slurm's names.
    """

    preempt_mode: frozenset[str]
    preempt_type: str = ""
    gres_types: frozenset[str] = frozenset()
    raw: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class License:
    """Describe a license pool.

    Attributes:
        name: as jobs ask for it.
        total: licenses.
        used: by jobs.
        free: left.
        reserved: by reservations.
        remote: counted by slurmdbd for several clusters.
    """

    name: str
    total: int
    used: int
    free: int
    reserved: int
    remote: bool
