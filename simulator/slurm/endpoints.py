"""Implement each path of the simulated slurmrestd, with its first API version and release."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from simulator.slurm.dynamic_nodes import delete_node, edit_node, read_new_node
from simulator.slurm.errors import TEXTS, SlurmRefusal
from simulator.slurm.job_requests import SubmitContext, node_names, parse_job, update_job
from simulator.slurm.records import SimJob
from simulator.slurm.serialization import Json, number, show_job, show_node, show_partition
from simulator.slurm.slurmctld import Slurmctld

USERS = {"root": (0, 0), "slurm": (64030, 64030), "alice": (2001, 2001), "bob": (2002, 2002)}
"""Users of the simulated cluster: name -> (uid, gid)."""

OPERATORS = frozenset({"root", "slurm"})
"""Users who may do everything."""


@dataclass(frozen=True, slots=True)
class RestCall:
    """One request, understood as far as its path. `argument` is the name or id in the path, "" where it has none."""

    controller: Slurmctld
    version: int
    caller: str
    argument: str = ""
    query: Mapping[str, list[str]] = field(default_factory=dict)
    body: Any = None

    @property
    def content(self) -> Mapping[str, Any]:
        """Return the body as an object; empty where it is none."""
        return self.body if isinstance(self.body, dict) else {}


@dataclass(frozen=True, slots=True)
class RestReply:
    """The contents of a reply beside its frame."""

    payload: Json = field(default_factory=dict)
    warnings: tuple[Json, ...] = ()
    errors: tuple[Json, ...] = ()


Handler = Callable[[RestCall], RestReply]


@dataclass(frozen=True, slots=True)
class Route:
    """A method on a path; `{}` in `path` stands for a name or id."""

    method: str
    path: str
    handle: Handler
    since_version: int = 40
    since_release: tuple[int, int] = (23, 11)


@lru_cache(maxsize=4096)
def find_route(method: str, path: str, version: int, release: tuple[int, int]) -> tuple[Route, str] | None:
    """Return the route of a request and the argument in its path; `None`: nothing is bound there."""
    for route in ROUTES:
        found = re.fullmatch(route.path.replace("{}", "([^/]+)"), path)
        if found and route.method == method and version >= route.since_version and release >= route.since_release:
            return route, found[1] if found.groups() else ""
    return None


def error(code: int, text: str, source: str) -> Json:
    """Return one entry of `errors`."""
    return {"description": text, "error_number": code, "error": text, "source": source}


def _diag(call: RestCall) -> RestReply:
    return RestReply({"statistics": {"server_thread_count": 1, "jobs_pending": 0}})


def _conf(call: RestCall) -> RestReply:
    config = call.controller.config
    return RestReply(
        {
            "slurm_conf": {
                "PreemptMode": list(config.preempt_mode),
                "PreemptType": config.preempt_type,
                "GresTypes": ",".join(config.gres_types),
            }
        }
    )


def _none_of(noun: str) -> Handler:
    return lambda call: _listed(call, noun, [])


def _submit(call: RestCall) -> RestReply:
    job = _read_job(call, allocation=False)
    warnings = call.controller.submit(job)
    return _made(
        call,
        job,
        tuple(
            {"description": f"{prefix}{TEXTS[code]}", "source": source}
            for code, source in warnings
            for prefix in ("Job submission resulted in non-zero return code: ", "")
        ),
    )


def _allocate(call: RestCall) -> RestReply:
    job = _read_job(call, allocation=True)
    if not call.content["job"].get("immediate"):
        raise SlurmRefusal(-1, text="a blocking allocation is not simulated: no client should request one")
    call.controller.allocate(job)
    return _made(call, job)


def _read_job(call: RestCall, *, allocation: bool) -> SimJob:
    raw = call.content.get("job")
    if not isinstance(raw, dict):
        raise SlurmRefusal(9000, status=422)
    context = SubmitContext(
        release=call.controller.release,
        version=call.version,
        now=call.controller.timers.wall(),
        caller=(call.caller, *USERS[call.caller]),
        allocation=allocation,
        nodes=call.controller.nodes,
        partitions=call.controller.partitions,
    )
    return parse_job(raw, context)


def _made(call: RestCall, job: SimJob, warnings: tuple[Json, ...] = ()) -> RestReply:
    payload: Json = {"job_id": job.job_id, "step_id": "batch", "job_submit_user_msg": ""}
    if call.version <= 41:
        payload["result"] = {"job_id": job.job_id, "error_code": 0, "error": "No error"}
    flags = call.content["job"].get("flags") or ()
    if "EXTERNAL_JOB" in flags and call.version < 43:
        # Slurm makes the job without the flag that it does not know, and answers with an error beside the job's id.
        unknown = error(9207, 'Unknown flag "EXTERNAL_JOB"', "#/job/flags[0]/")
        raise SlurmRefusal(9207, unknown["source"], text=unknown["description"], status=500, beside=payload)
    return RestReply(payload, warnings)


def _job(call: RestCall) -> RestReply:
    job = call.controller.job(_id(call.argument))
    if job is None:
        raise SlurmRefusal(2017, "_handle_job_get", status=404, beside={"jobs": []})
    return _listed(call, "jobs", [show_job(job, call.controller, call.version)])


def _update_job(call: RestCall) -> RestReply:
    job = call.controller.job(_id(call.argument))
    if job is None:
        raise SlurmRefusal(2017, "slurm_update_job2()", status=404)
    if call.caller not in OPERATORS:
        if job.user_id != USERS[call.caller][0]:
            raise SlurmRefusal(2010, "slurm_update_job2()")
        if "admin_comment" in call.content:
            raise SlurmRefusal(2002, "slurm_update_job2()")
    update_job(job, call.content, call.controller.nodes, call.controller.partitions)
    if job.running and (kept := node_names(call.content.get("required_nodes"), call.controller.nodes)):
        call.controller.shrink(job.job_id, kept)
    call.controller.changed()
    return RestReply({"results": None})


def _states(call: RestCall) -> RestReply:
    wanted = call.query.get("job_id")
    jobs = [job for job in call.controller.known_jobs() if not wanted or str(job.job_id) in wanted]
    return RestReply({"jobs": [{"job_id": str(job.job_id), "state": job.words} for job in jobs]})


def _kill(call: RestCall) -> RestReply:
    """Serve a kill by id and by name; with signal 0 a probe that ends nothing. Failures alone unless VERBOSE."""
    body = call.content
    ids = [int(one) for one in body.get("jobs") or ()]
    if name := body.get("job_name"):
        ids += [job.job_id for job in call.controller.known_jobs() if job.name == name and not job.ended]
    elif not ids:
        raise SlurmRefusal(2173, "slurm_kill_jobs()", beside={"status": []})
    signal, flags = str(body.get("signal", "KILL")), body.get("flags") or ()
    codes = [(job_id, _kill_one(call.controller, job_id, signal, script="BATCH_JOB" in flags)) for job_id in ids]
    verbose = "VERBOSE" in flags
    return RestReply({"status": [_status(job_id, code) for job_id, code in codes if code or verbose]})


def _kill_one(controller: Slurmctld, job_id: int, signal: str, script: bool) -> int:
    """Signal one job. `script`: the batch script alone; else all steps, for which slurmctld asks the job's nodes."""
    job = controller.job(job_id)
    if job is None or signal not in {"0", "TERM", "USR1", "USR2", "HUP"}:
        return controller.cancel(job_id)
    if job.ended:
        return 2021
    if job.pending:
        return 2020
    if script and job.script is None:
        return 2009
    if not script:
        controller.message_nodes(job)
    else:
        controller.signal_script(job_id, signal)
    return 0


def _status(job_id: int, code: int) -> Json:
    text = "No error" if code == 0 else TEXTS[code]
    return {
        "error": {"string": text, "code": code, "message": text if code else ""},
        "step_id": str(job_id),
        "job_id": number(None if code == 2017 else job_id),
        "federation": {"sibling": ""},
    }


def _nodes(call: RestCall) -> RestReply:
    nodes = call.controller.nodes.values()
    return _listed(call, "nodes", [show_node(node, call.controller, call.version) for node in nodes])


def _node(call: RestCall) -> RestReply:
    node = call.controller.nodes.get(call.argument)
    if node is None:  # HTTP 200 with an error numbered 0 is how every release says so
        return RestReply({}, errors=(error(0, "No error", "_dump_nodes"),))
    return _listed(call, "nodes", [show_node(node, call.controller, call.version)])


def _update_node(call: RestCall) -> RestReply:
    return _set_nodes(call, [call.argument])


def _update_nodes(call: RestCall) -> RestReply:
    return _set_nodes(call, list(call.content.get("name") or []))


def _set_nodes(call: RestCall, names: list[str]) -> RestReply:
    if call.caller not in OPERATORS:
        raise SlurmRefusal(2010, "_update_node")
    try:
        node_names(names, call.controller.nodes)
    except SlurmRefusal as refusal:
        refusal.source = "_update_node"
        raise
    words = call.content.get("state") or []
    for name in names:
        edit_node(call.controller.nodes[name], call.content, call.version)
        for word in [words] if isinstance(words, str) else words:
            _set_node(call.controller, name, word, str(call.content.get("reason") or ""))
    return RestReply()


def _set_node(controller: Slurmctld, name: str, word: str, reason: str) -> None:
    match word:
        case "DRAIN":
            controller.drain(name, reason)
        case "FAIL":
            controller.fail(name, reason)
        case "RESUME" if not (one := controller.nodes[name]).drained and not one.down and not one.failing:
            raise SlurmRefusal(2028, "_update_node")
        case "RESUME" | "IDLE":
            controller.resume(name)
        case "UNDRAIN":
            controller.undrain(name, reason)
        case "DOWN":
            controller.set_down(name, reason)
        case _:
            raise SlurmRefusal(2028, "_update_node")


def _new_node(call: RestCall) -> RestReply:
    if call.caller not in OPERATORS:
        raise SlurmRefusal(2010, "slurm_create_node")
    node = read_new_node(str(call.content.get("node_conf") or ""), call.controller)
    call.controller.nodes[node.name] = node
    call.controller.changed()
    return RestReply()


def _delete_node(call: RestCall) -> RestReply:
    if call.caller not in OPERATORS:
        raise SlurmRefusal(2010, "slurm_delete_node")
    delete_node(call.argument, call.controller)
    return RestReply()


def _partitions(call: RestCall) -> RestReply:
    partitions = call.controller.partitions.values()
    return _listed(call, "partitions", [show_partition(one, call.controller, call.version) for one in partitions])


def _listed(call: RestCall, noun: str, items: list[Json]) -> RestReply:
    return RestReply({noun: items, "last_update": number(call.controller.timers.wall())})


def _id(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise SlurmRefusal(9000, "op_handler_job", status=422)
    return int(text)


ROUTES = (
    Route("GET", "/diag", _diag),
    Route("GET", "/conf", _conf, since_version=45),
    Route("GET", "/licenses", _none_of("licenses")),
    Route("GET", "/reservations", _none_of("reservations")),
    Route("POST", "/job/submit", _submit),
    Route("POST", "/job/allocate", _allocate, since_version=41, since_release=(24, 5)),
    Route("GET", "/jobs/state", _states),
    Route("DELETE", "/jobs", _kill),
    Route("GET", "/job/{}", _job),
    Route("POST", "/job/{}", _update_job),
    Route("GET", "/nodes", _nodes),
    Route("POST", "/nodes", _update_nodes, since_release=(24, 11)),
    Route("GET", "/node/{}", _node),
    Route("POST", "/node/{}", _update_node),
    Route("DELETE", "/node/{}", _delete_node),
    Route("POST", "/new/node", _new_node, since_version=44, since_release=(25, 11)),
    Route("GET", "/partitions", _partitions),
)
