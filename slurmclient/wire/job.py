"""Read jobs and job states from JSON."""

from __future__ import annotations

from typing import TypedDict

from slurmclient.errors import ProtocolError
from slurmclient.models.description import Shared
from slurmclient.models.job import ExitCode, Job, NodeAllocation
from slurmclient.models.listing import JobStates, UnreadableEntry
from slurmclient.models.state import JobState
from slurmclient.number import INFINITE, Infinite, decode_integer, decode_limit, decode_time
from slurmclient.tres import Gres, TresError, parse_gres
from slurmclient.wire.fields import (
    Raw,
    flag,
    integer,
    mapping,
    names,
    require_id,
    text,
    tres,
    words,
)


def read_job(raw: Raw, allocations: tuple[NodeAllocation, ...], shared: Shared | None, switches_key: str) -> Job:
    """Read one job.

    Args:
        raw: the record.
        allocations: read by the version's codec.
        shared: read by the version's codec.
        switches_key: the key of the requested number of switches in this version.

    Raises:
        ProtocolError: the record has no id.
        HostlistError: a node list cannot be read; what a job holds must not be guessed.
    """
    state_words = words(raw, "job_state")
    state = JobState.of(state_words)
    return Job(
        job_id=require_id(raw, "job_id"),
        name=text(raw, "name"),
        state=state,
        flags=frozenset(state_words) - {state.value},
        state_reason=text(raw, "state_reason"),
        state_description=text(raw, "state_description"),
        nodes=names(raw, "nodes"),
        batch_host=text(raw, "batch_host"),
        scheduled_nodes=names(raw, "scheduled_nodes"),
        node_count=decode_integer(raw.get("node_count")),
        cpus=decode_integer(raw.get("cpus")),
        tasks=decode_integer(raw.get("tasks")),
        cpus_per_task=decode_integer(raw.get("cpus_per_task")),
        memory_per_node_mb=decode_limit(raw.get("memory_per_node")),
        memory_per_cpu_mb=decode_limit(raw.get("memory_per_cpu")),
        allocations=allocations,
        gres_detail=_gres_detail(raw),
        tres_requested=tres(raw, "tres_req_str"),
        tres_allocated=tres(raw, "tres_alloc_str"),
        tres_per_node=text(raw, "tres_per_node"),
        tres_per_job=text(raw, "tres_per_job"),
        tres_per_task=text(raw, "tres_per_task"),
        partition=text(raw, "partition"),
        account=text(raw, "account"),
        qos=text(raw, "qos"),
        reservation=text(raw, "resv_name"),
        wckey=text(raw, "wckey"),
        user_id=decode_integer(raw.get("user_id")),
        group_id=decode_integer(raw.get("group_id")),
        user_name=text(raw, "user_name"),
        group_name=text(raw, "group_name"),
        comment=text(raw, "comment"),
        admin_comment=text(raw, "admin_comment"),
        extra=text(raw, "extra"),
        system_comment=text(raw, "system_comment"),
        mcs_label=text(raw, "mcs_label"),
        **_times(raw, state),
        restart_count=integer(raw, "restart_cnt"),
        exit_code=read_exit_code(mapping(raw, "exit_code")),
        derived_exit_code=read_exit_code(mapping(raw, "derived_exit_code")),
        failed_node=text(raw, "failed_node"),
        required_nodes=names(raw, "required_nodes"),
        excluded_nodes=names(raw, "excluded_nodes"),
        constraints=text(raw, "features"),
        prefer=text(raw, "prefer"),
        required_switches=decode_integer(raw.get(switches_key)) or None,
        priority=decode_limit(raw.get("priority")),
        nice=decode_integer(raw.get("nice")),
        hold=flag(raw, "hold"),
        requeue=flag(raw, "requeue"),
        dependency=text(raw, "dependency"),
        licenses=text(raw, "licenses"),
        shared=shared,
        batch=flag(raw, "batch_flag"),
        job_flags=frozenset(words(raw, "flags")),
        current_working_directory=text(raw, "current_working_directory"),
        standard_input=text(raw, "standard_input"),
        standard_output=text(raw, "standard_output"),
        standard_error=text(raw, "standard_error"),
        cluster=text(raw, "cluster"),
        array_job_id=decode_integer(raw.get("array_job_id")) or None,
        array_task_id=decode_integer(raw.get("array_task_id")) if decode_integer(raw.get("array_job_id")) else None,
    )


def read_shared(raw: Raw) -> Shared | None:
    """Read the way in which a job shares its nodes; None for an unknown word."""
    return next((Shared(word) for word in words(raw, "shared") if word in _SHARED), None)


def read_allocations(raw: Raw) -> tuple[NodeAllocation, ...]:
    """Read `job_resources.nodes.allocation`, the form from v0.0.41 on."""
    entries = mapping(mapping(raw, "job_resources"), "nodes").get("allocation")
    return tuple(
        _allocation(entry)
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and text(entry, "name")
    )


def _allocation(entry: Raw) -> NodeAllocation:
    cores, total = _core_numbers(entry.get("sockets"))
    return NodeAllocation(
        node=text(entry, "name"),
        cpus=integer(mapping(entry, "cpus"), "count"),
        memory_mb=integer(mapping(entry, "memory"), "allocated"),
        cores=cores,
        node_cores=total,
    )


def read_allocations_v0040(raw: Raw) -> tuple[NodeAllocation, ...]:
    """Read `job_resources.allocated_nodes`, the form of v0.0.40."""
    value = mapping(raw, "job_resources").get("allocated_nodes")
    entries = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    cores = [_cores(entry) for entry in entries]
    # Cores are reported by node, CPUs only for the whole job.
    threads = integer(raw, "cpus") // sum(cores) if sum(cores) else 0
    return tuple(
        NodeAllocation(
            node=text(entry, "nodename"), cpus=count * max(threads, 1), memory_mb=integer(entry, "memory_allocated")
        )
        for entry, count in zip(entries, cores, strict=True)
        if text(entry, "nodename")
    )


_NOT_AN_ID = 0xFFFF_FFFE
"""slurm.h: NO_VAL, and INFINITE above it."""

_LONG_ID = 10
"""Digits of the ids that may be as large as `_NOT_AN_ID`."""


def read_states(payload: Raw, endpoint: str) -> JobStates:
    """Read `GET /jobs/state`, tens of thousands of entries: plain loops, and equal word sets are one object.

    Raises:
        ProtocolError: the list itself is missing; that does not mean "no jobs".
    """
    entries = payload.get("jobs")
    if not isinstance(entries, list):
        raise ProtocolError("the reply has no list 'jobs'", endpoint=endpoint)
    states = JobStates()
    known: dict[tuple[str, ...], frozenset[str]] = {}
    unreadable: list[UnreadableEntry] = []
    for position, entry in enumerate(entries):
        try:
            job_id = entry["job_id"]
            key = tuple(entry.get("state") or ())
            state_words = known.get(key)
            if state_words is None:
                state_words = known[key] = frozenset(word for word in key if isinstance(word, str))
        except (TypeError, KeyError, AttributeError) as error:
            _unreadable_state(states, unreadable, position, entry, error)
            continue
        if type(job_id) is str and len(job_id) < _LONG_ID and job_id.isdecimal():
            job_id = int(job_id)
        if type(job_id) is int and 0 < job_id < _NOT_AN_ID:  # every plain one
            states[job_id] = state_words
            continue
        if isinstance(job_id, str) and not job_id.isdecimal():
            if job_id[:1].isdecimal():
                states.composite[job_id] = state_words
            else:
                unreadable.append(UnreadableEntry(position, job_id[:80], "job_id is not an id"))
            continue
        number = decode_integer(job_id)
        if number:
            states[number] = state_words
        else:
            shown = str(job_id)[:80] if isinstance(job_id, str | int | float) else type(job_id).__name__
            unreadable.append(UnreadableEntry(position, shown, "job_id is not an id"))
    states.unreadable = tuple(unreadable)
    return states


def _unreadable_state(
    states: JobStates, unreadable: list[UnreadableEntry], position: int, entry: object, error: Exception
) -> None:
    """Read an entry: with an id and unreadable words it is a job that exists; without an id it is reported."""
    job_id = decode_integer(entry.get("job_id")) if isinstance(entry, dict) else None
    if job_id:
        states[job_id] = frozenset()
    else:
        unreadable.append(UnreadableEntry(position, "", f"{type(error).__name__}: {error}"))


class _Times(TypedDict):
    """The fields of `Job` that are times or lengths of time."""

    start_time: int | None
    end_time: int | None
    submit_time: int | None
    eligible_time: int | None
    preempt_time: int | None
    suspend_time: int | None
    deadline: int | None
    time_limit_minutes: int | Infinite | None
    time_minimum_minutes: int | Infinite | None


def _times(raw: Raw, state: JobState) -> _Times:
    return {
        "start_time": decode_time(raw.get("start_time")),
        "end_time": _end_time(raw, state),
        "submit_time": decode_time(raw.get("submit_time")),
        "eligible_time": decode_time(raw.get("eligible_time")),
        "preempt_time": decode_time(raw.get("preempt_time")),
        "suspend_time": decode_time(raw.get("suspend_time")),
        "deadline": decode_time(raw.get("deadline")),
        "time_limit_minutes": decode_limit(raw.get("time_limit")),
        "time_minimum_minutes": decode_limit(raw.get("time_minimum")) or None,
    }


def _end_time(raw: Raw, state: JobState) -> int | None:
    """Return the end. For a live job without time limit slurmctld reports one a year ahead, unless it is preempted."""
    unlimited = decode_limit(raw.get("time_limit")) is INFINITE
    if unlimited and not state.ended and decode_time(raw.get("preempt_time")) is None:
        return None
    return decode_time(raw.get("end_time"))


def read_exit_code(raw: Raw) -> ExitCode:
    """Read the end of a job."""
    return ExitCode(
        status=frozenset(words(raw, "status")),
        return_code=decode_integer(raw.get("return_code")),
        signal=decode_integer(mapping(raw, "signal").get("id")) or None,
    )


def _gres_detail(raw: Raw) -> tuple[tuple[Gres, ...], ...]:
    value = raw.get("gres_detail")
    if not isinstance(value, list):
        return ()
    details: list[tuple[Gres, ...]] = []
    for entry in value:
        try:
            details.append(parse_gres(entry) if isinstance(entry, str) else ())
        except TresError:
            details.append(())
    return tuple(details)


def _core_numbers(sockets: object) -> tuple[tuple[int, ...], int]:
    """Return the numbers of the allocated cores, and how many cores there are; none unless all are listed in order.

    Every reading of a job comes here, with some hundred cores for each node: comprehensions, and no call for a core.
    """
    given: list[int] = []
    total = 0
    try:
        for at, socket in enumerate(sockets if isinstance(sockets, list) else ()):
            cores = socket["cores"]
            if socket["index"] != at or [core["index"] for core in cores] != list(range(len(cores))):
                return (), 0
            given += [total + number for number, core in enumerate(cores) if "ALLOCATED" in core["status"]]
            total += len(cores)
    except (KeyError, TypeError):
        return (), 0
    return tuple(given), total


def _cores(entry: Raw) -> int:
    """Count the allocated cores of v0.0.40's `sockets{"0": {"cores": {"0": "allocated"}}}`."""
    return sum(
        1
        for socket in mapping(entry, "sockets").values()
        if isinstance(socket, dict)
        for core in mapping(socket, "cores").values()
        if core == "allocated"
    )


_SHARED = frozenset(mode.value for mode in Shared)
