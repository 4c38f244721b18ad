"""The Helm values of SUNK's `slurm` chart: its `scheduler`, and KillWait of its `slurmConfig`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from extender.config.peers.plan import ImportPlan
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

_OURS = {"scheduler", "slurmConfig"}

MOST_CONNECTIONS = 8


def are_values(document: Values) -> bool:
    """They look like values of that chart."""
    scheduler = document.get("scheduler")
    keys = scheduler.keys() if isinstance(scheduler, dict) else set()
    ours = {"scope", "config"} & keys or ("enabled" in keys and keys <= {"enabled", "name", *_WHY})
    # Other charts of Slurm have `compute` and `controller` too.
    return bool(ours) or ({"compute", "controller"} <= document.keys() and bool(document.keys() & _OURS))


def take_values(document: Values, plan: ImportPlan) -> None:
    """Take over what they say of the scheduler."""
    scheduler = plan.map(document.get("scheduler"), "scheduler")
    if scheduler.get("enabled") is False:
        plan.note("scheduler.enabled", "it is false: in these values SUNK schedules no Pods")
    for key, value in scheduler.items():
        if key == "name":
            if value:
                plan.put(("scheduler", "name"), str(value), "scheduler.name")
        elif key == "scope":
            _scope(plan.map(value, "scheduler.scope"), plan)
        elif key == "config":
            _config(plan.map(value, "scheduler.config"), plan)
        elif key != "enabled":
            plan.note(f"scheduler.{key}", _WHY.get(key, "nothing here is like it"))
    if not scheduler.get("name"):
        plan.note(
            "scheduler.name",
            "not given: SUNK's is NAMESPACE-RELEASE; set scheduler.name to what your Pods have in spec.schedulerName",
        )
    _slurm_conf(plan.map(document.get("slurmConfig"), "slurmConfig"), plan)
    for key in document:
        if key not in _OURS:
            plan.note(key, "of the rest of the chart, which runs Slurm itself; it goes on as it is")
    as_in_sunk(plan)


def _scope(scope: Values, plan: ImportPlan) -> None:
    kind, namespaces = scope.get("type") or "cluster", scope.get("namespaces") or []
    if isinstance(namespaces, str):  # SUNK takes a comma-separated list
        namespaces = [name.strip() for name in namespaces.split(",") if name.strip()]
    if kind == "namespace" and namespaces:
        plan.put(("scope", "namespaces"), namespaces, "scheduler.scope.namespaces")
    elif kind == "namespace":
        plan.note(
            "scheduler.scope.namespaces",
            "empty means the namespace of SUNK's own release, which these values do not name: set scope.namespaces",
        )
    elif kind != "cluster":
        plan.note("scheduler.scope.type", f"{kind!r} is neither cluster nor namespace")
    elif namespaces:
        plan.note("scheduler.scope.namespaces", "scheduler.scope.type is cluster: SUNK serves every namespace")
    for key in scope.keys() - {"type", "namespaces"}:
        plan.note(f"scheduler.scope.{key}", "nothing here is like it")


def _config(config: Values, plan: ImportPlan) -> None:
    for group, keys in config.items():
        for key, value in plan.map(keys, f"scheduler.config.{group}").items():
            name = f"{group}.{key}"
            source = f"scheduler.config.{name}"
            if name == "scheduler.gpuTypes":
                plan.put(("jobs", "gpuTypes"), value, source)
            elif name == "slurm.poolSize" and isinstance(value, int):
                plan.put(("slurm", "connections"), min(value, MOST_CONNECTIONS), source)
            else:
                plan.note(source, _CONFIG_WHY.get(name, "nothing here is like it"))


def _slurm_conf(conf: Values, plan: ImportPlan) -> None:
    others = []
    for key, value in _leaves(conf):
        if key.rpartition(".")[2].lower() == "killwait":
            seconds = f"{value}s" if str(value).isdecimal() else value
            plan.put(("slurm", "killWait"), seconds, f"slurmConfig.{key}")
        else:
            others.append(key)
    if others:
        plan.note(f"slurmConfig ({', '.join(others)})", "of slurm.conf; `slurm-extender doctor` says what of it hurts")


def _leaves(values: Values, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
