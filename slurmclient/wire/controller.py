"""Read the state of slurmctld from JSON."""

from __future__ import annotations

from slurmclient.capabilities import Release
from slurmclient.errors import ProtocolError
from slurmclient.models.controller import ControllerPing, Diagnostics, License, Ping, SlurmConf
from slurmclient.number import decode_integer
from slurmclient.wire.envelope import Envelope
from slurmclient.wire.fields import Raw, flag, integer, mapping, require_text, text, words


def read_controller(raw: Raw) -> ControllerPing:
    """Read one entry of a ping, from v0.0.42 on."""
    return ControllerPing(
        hostname=text(raw, "hostname"),
        responding=flag(raw, "responding"),
        primary=flag(raw, "primary"),
        latency_us=_latency(raw),
    )


def read_controller_v0041(raw: Raw) -> ControllerPing:
    """Read one entry of a ping, up to v0.0.41."""
    return ControllerPing(
        hostname=text(raw, "hostname"),
        responding=text(raw, "pinged") == "UP",
        primary=text(raw, "mode") == "primary",
        latency_us=_latency(raw),
    )


def read_ping(envelope: Envelope, controllers: tuple[ControllerPing, ...]) -> Ping:
    """Read a ping.

    Raises:
        ProtocolError: the reply does not name a release, so that it is not slurmrestd's.
    """
    release: Release | None = envelope.release
    if release is None:
        raise ProtocolError("the reply names no Slurm release", endpoint=envelope.endpoint, http_status=envelope.status)
    return Ping(controllers=controllers, release=release, cluster=envelope.cluster)


def read_diagnostics(payload: Raw) -> Diagnostics:
    """Read the statistics of slurmctld."""
    raw = mapping(payload, "statistics")
    return Diagnostics(
        server_thread_count=decode_integer(raw.get("server_thread_count")),
        agent_queue_size=decode_integer(raw.get("agent_queue_size")),
        jobs_submitted=decode_integer(raw.get("jobs_submitted")),
        jobs_started=decode_integer(raw.get("jobs_started")),
        jobs_completed=decode_integer(raw.get("jobs_completed")),
        jobs_canceled=decode_integer(raw.get("jobs_canceled")),
        jobs_failed=decode_integer(raw.get("jobs_failed")),
        jobs_pending=decode_integer(raw.get("jobs_pending")),
        jobs_running=decode_integer(raw.get("jobs_running")),
        schedule_cycle_last_us=decode_integer(raw.get("schedule_cycle_last")),
        schedule_cycle_mean_us=decode_integer(raw.get("schedule_cycle_mean")),
        backfill_active=flag(raw, "bf_active"),
        backfill_cycle_last_us=decode_integer(raw.get("bf_cycle_last")),
        raw=raw,
    )


def read_slurm_conf(payload: Raw) -> SlurmConf:
    """Read slurm.conf, from v0.0.45 on."""
    raw = mapping(payload, "slurm_conf")
    return SlurmConf(
        preempt_mode=frozenset(words(raw, "PreemptMode")),
        preempt_type=text(raw, "PreemptType"),
        gres_types=frozenset(words(raw, "GresTypes")),
        raw=raw,
    )


def read_license(raw: Raw) -> License:
    """Read one license pool.

    Raises:
        ProtocolError: the record has no name.
    """
    return License(
        name=require_text(raw, "LicenseName"),
        total=integer(raw, "Total"),
        used=integer(raw, "Used"),
        free=integer(raw, "Free"),
        reserved=integer(raw, "Reserved"),
        remote=flag(raw, "Remote"),
    )


def _latency(raw: Raw) -> int | None:
    return decode_integer(raw.get("latency")) or None
