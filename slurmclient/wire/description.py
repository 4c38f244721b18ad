"""Write job descriptions as JSON. Unset fields are not sent: for slurmrestd neither null nor `""` means unset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from slurmclient.errors import InvalidRequestError
from slurmclient.hostlist import HostlistError, compress
from slurmclient.models.description import CLEARABLE, JobDescription
from slurmclient.models.signal import check_signal
from slurmclient.number import Infinite, encode_number, encode_time

Json = dict[str, object]


def _same(value: object) -> object:
    return value


def _list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _number(value: object) -> object:
    return encode_number(value) if isinstance(value, int | float | Infinite) else value


def _signal(value: object) -> object:
    return check_signal(value) if isinstance(value, str | int) else value


def _hostlist(value: object) -> object:
    if not isinstance(value, tuple):
        raise InvalidRequestError(f"node names {value!r}: give a tuple of names")
    try:
        # An update with an empty array changes nothing; an array with one empty text empties the list (24.11, 26.05).
        return [compress(value)]
    except HostlistError as error:
        raise InvalidRequestError(str(error)) from error


def _moment(value: object) -> object:
    return encode_time(value) if isinstance(value, int) else value


# Python name -> wire name and writer, for every field that all versions write the same way; `external` is the codec's.
_WRITERS: Final[dict[str, tuple[str, Callable[[object], object]]]] = {
    **{
        name: (name, _same)
        for name in (
            "name", "account", "partition", "qos", "reservation", "wckey", "comment", "admin_comment", "extra",
            "mcs_label", "constraints", "prefer", "licenses", "dependency", "container", "script",
            "current_working_directory", "minimum_cpus", "maximum_cpus", "minimum_cpus_per_node", "cpus_per_task",
            "tasks", "tasks_per_node", "threads_per_core", "tres_per_node", "tres_per_job", "tres_per_socket",
            "tres_per_task", "minimum_nodes", "maximum_nodes", "nodes", "contiguous", "hold", "nice", "requeue",
            "kill_on_node_fail", "standard_input", "standard_output", "standard_error", "immediate", "reboot",
            "overcommit", "segment_size",
        )
    },
    "environment": ("environment", _list),
    "user_id": ("user_id", str),
    "group_id": ("group_id", str),
    "time_limit_minutes": ("time_limit", _number),
    "time_minimum_minutes": ("time_minimum", _number),
    "begin_time": ("begin_time", _moment),
    "deadline": ("deadline", _moment),
    "memory_per_node_mb": ("memory_per_node", _number),
    "memory_per_cpu_mb": ("memory_per_cpu", _number),
    "required_nodes": ("required_nodes", _hostlist),
    "excluded_nodes": ("excluded_nodes", _hostlist),
    "required_switches": ("required_switches", _number),
    "wait_for_switch_s": ("wait_for_switch", _same),
    "shared": ("shared", lambda value: [str(value)]),
    "priority": ("priority", _number),
    "kill_warning_signal": ("kill_warning_signal", _signal),
    "kill_warning_delay_s": ("kill_warning_delay", _number),
    "kill_warning_flags": ("kill_warning_flags", _list),
}  # fmt: skip


def write_description(description: JobDescription) -> Json:
    """Write the set fields, for a new job."""
    body: Json = {}
    for name, (key, write) in _WRITERS.items():
        value = getattr(description, name)
        if value not in (None, "", ()):
            body[key] = write(value)
    return body


def write_changes(description: JobDescription) -> Json:
    """Write the set fields, for an update; an empty text or tuple clears the old value if that is possible.

    Raises:
        InvalidRequestError: a field that cannot be emptied is empty, or nothing is said at all.
    """
    for field in fields(description):
        if getattr(description, field.name) in ("", ()) and field.name not in CLEARABLE:
            raise InvalidRequestError(
                f"job update: {field.name} cannot be emptied; only {', '.join(sorted(CLEARABLE))} can"
            )
    body: Json = {}
    for name, (key, write) in _WRITERS.items():
        value = getattr(description, name)
        if value is not None:
            body[key] = write(value)
    return body
