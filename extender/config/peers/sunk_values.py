"""The Helm values of SUNK's `slurm` chart: its `scheduler`, and KillWait of its `slurmConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.config.peers.plan import Plan
from extender.config.peers.sunk_users import as_in_sunk

Values = Mapping[str, Any]

_DEPLOYMENT = "of the Deployment: manifests/base has its own"
_CONNECTION = "of SUNK's connection to slurmctld; here slurmrestd is asked"

_WHY = {
    "affinity": _DEPLOYMENT,
    "annotations": _DEPLOYMENT,
    "containerSecurityContext": _DEPLOYMENT,
    "env": _DEPLOYMENT,
    "image": _DEPLOYMENT,
    "imagePullSecrets": _DEPLOYMENT,
    "labels": _DEPLOYMENT,
    "nodeSelector": _DEPLOYMENT,
    "podAnnotations": _DEPLOYMENT,
    "podSecurityContext": _DEPLOYMENT,
    "priorityClassName": _DEPLOYMENT,
    "replicas": "two are shipped, and one leads (leaderElection)",
    "resources": _DEPLOYMENT,
    "securityContext": _DEPLOYMENT,
    "tolerations": _DEPLOYMENT,
}

_CONFIG_WHY = {
    "slurm.usePersistentConnection": _CONNECTION,
    "slurm.protocolVersion": f"{_CONNECTION}, and finds the version out",
    "scheduler.pollInterval": "states of all jobs are polled every 0.2 s to 1 s (limits.pollInterval)",
    "scheduler.terminationOffset": "the end of a Pod is counted from its own grace, and hooks.wait bounds the script",
}

MOST_CONNECTIONS = 8


def are_values(document: Values) -> bool:
    """They look like values of that chart."""
    scheduler = document.get("scheduler")
    ours = isinstance(scheduler, dict) and ({"scope", "config"} & scheduler.keys() or {"enabled"} == scheduler.keys())
    return bool(ours) or {"compute", "controller"} <= document.keys()


def take_values(document: Values, plan: Plan) -> None:
    """Take over what they say of the scheduler."""
    scheduler = _map(document.get("scheduler"))
    if scheduler.get("enabled") is False:
        plan.note("scheduler.enabled", "it is false: in these values SUNK schedules no Pods")
    for key, value in scheduler.items():
        if key == "name":
            plan.put(("scheduler", "name"), str(value), "scheduler.name")
        elif key == "scope":
            _scope(_map(value), plan)
        elif key == "config":
            _config(_map(value), plan)
        elif key != "enabled":
            plan.note(f"scheduler.{key}", _WHY.get(key, "nothing here is like it"))
    if not scheduler.get("name"):
        plan.note(
            "scheduler.name",
            "not given: SUNK's is NAMESPACE-RELEASE; set scheduler.name to what your Pods have in spec.schedulerName",
        )
    _slurm_conf(_map(document.get("slurmConfig")), plan)
    for key in document:
        if key not in {"scheduler", "slurmConfig"}:
            plan.note(key, "of the rest of the chart, which runs Slurm itself; it goes on as it is")
    as_in_sunk(plan)


def _scope(scope: Values, plan: Plan) -> None:
    kind, namespaces = scope.get("type", "cluster"), scope.get("namespaces") or []
    if kind == "namespace" and namespaces:
        plan.put(("scope", "namespaces"), namespaces, "scheduler.scope.namespaces")
    elif kind == "namespace":
        plan.note(
            "scheduler.scope.namespaces",
            "empty means the namespace of SUNK's own release, which these values do not name: set scope.namespaces",
        )
    elif kind != "cluster":
        plan.note("scheduler.scope.type", f"{kind!r} is neither cluster nor namespace")
    for key in scope.keys() - {"type", "namespaces"}:
        plan.note(f"scheduler.scope.{key}", "nothing here is like it")


def _config(config: Values, plan: Plan) -> None:
    for group, keys in config.items():
        for key, value in _map(keys).items():
            name = f"{group}.{key}"
            source = f"scheduler.config.{name}"
            if name == "scheduler.gpuTypes":
                plan.put(("jobs", "gpuTypes"), value, source)
            elif name == "slurm.poolSize" and isinstance(value, int):
                plan.put(("slurm", "connections"), min(value, MOST_CONNECTIONS), source)
            else:
                plan.note(source, _CONFIG_WHY.get(name, "nothing here is like it"))
        if not isinstance(keys, dict):
            plan.note(f"scheduler.config.{group}", "no map")


def _slurm_conf(conf: Values, plan: Plan) -> None:
    for key, value in conf.items():
        if str(key).lower() == "killwait":
            seconds = f"{value}s" if str(value).isdecimal() else value
            plan.put(("slurm", "killWait"), seconds, f"slurmConfig.{key}")
    others = [str(key) for key in conf if str(key).lower() != "killwait"]
    if others:
        plan.note(f"slurmConfig ({', '.join(others)})", "of slurm.conf; `slurm-extender doctor` says what of it hurts")


def _map(value: Any) -> Values:
    return value if isinstance(value, dict) else {}
