"""SUNK: its flags as keys of the configuration, its Deployments, its Helm values and its users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic.alias_generators import to_camel

from extender.config.load import Override, Overrides
from extender.config.peers.plan import TOKEN_FILE, ImportPlan
from extender.config.schema_keys import KeyPath
from extender.config.serving import LOOPBACK, Http, Observability
from extender.config.values import read_bind_address

_ZAP_LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "error": "error", "panic": "error"}


@dataclass(frozen=True, slots=True)
class SunkFlag:
    """One flag. `read` turns its text into the key's value and raises `ValueError` with what is allowed."""

    name: str
    path: KeyPath | None
    read: Callable[[str], Any]
    help: str


SLURMCTLD_PORT, SLURMRESTD_PORT = 6817, 6820
SCHEDULING_PORT = Http().bind.port

_DEFAULT_PORTS: dict[KeyPath, int] = {
    ("observability", to_camel(name)): field.get_default().port
    for name, field in Observability.model_fields.items()
    if name.endswith("_bind")
}


def _itself(text: str) -> Any:
    return text


def _address(text: str) -> Any:
    url = text if "://" in text else f"http://{text}"
    if url.rpartition(":")[2].rstrip("/") == str(SLURMCTLD_PORT):
        raise ValueError(
            f"{text!r} is slurmctld's own port; it must be the address of a slurmrestd, by default "
            f"HOST:{SLURMRESTD_PORT}"
        )
    return [url]


def _namespaces(text: str) -> Any:
    return [name.strip() for name in text.split(",") if name.strip()]


def _zap_level(text: str) -> Any:
    if text.isdecimal():  # zap counts verbosity up from debug
        return "debug"
    if text not in _ZAP_LEVELS:
        raise ValueError(f"{text!r} is no level; it must be one of {', '.join(_ZAP_LEVELS)}, or a whole number")
    return _ZAP_LEVELS[text]


def _components(text: str) -> Any:
    if text != "scheduler":
        raise ValueError(f"{text!r}: this program is the scheduler component alone; it must be scheduler")
    return text


SUNK_FLAGS = (
    SunkFlag("health-probe-bind-address", ("observability", "healthBind"), _itself, "Address of the health probes."),
    SunkFlag("metrics-bind-address", ("observability", "metricsBind"), _itself, "Address of /metrics."),
    SunkFlag("hooks-api-bind-address", ("hooks", "bind"), _itself, "Address of the hooks."),
    SunkFlag("zap-log-level", ("observability", "logLevel"), _zap_level, "debug, info, warn, error, or a number."),
    SunkFlag("components", None, _components, "Only `scheduler`."),
    SunkFlag("slurm-auth-token", ("slurm", "token"), _itself, "The Slurm token. Prefer slurm.tokenFile."),
    SunkFlag("slurm-api-base", ("slurm", "addresses"), _address, "HOST:PORT or URL of slurmrestd."),
    SunkFlag("slurm-kill-wait", ("slurm", "killWait"), _itself, "slurm.conf's KillWait, such as 30s."),
    SunkFlag("watch-namespace", ("scope", "namespaces"), _namespaces, "Namespace to serve, or several with commas."),
    SunkFlag("scheduler-name", ("scheduler", "name"), _itself, "schedulerName of the Pods that Slurm places."),
)


def from_flags(given: dict[str, str]) -> Overrides:
    """Convert flags to overrides. `given` maps names, without dashes, to text; an empty text says nothing."""
    values, faults = [], []
    for flag in SUNK_FLAGS:
        text = given.get(flag.name, "")
        if not text:
            continue
        try:
            value = flag.read(text)
        except ValueError as error:
            faults.append(f"--{flag.name}: {error}")
            continue
        if flag.path is not None:
            values.append(Override(flag.path, value, f"--{flag.name}"))
    return Overrides((*values, *_scheduling_on_another_address(values)), tuple(faults))


def _scheduling_on_another_address(given: list[Override]) -> Iterator[Override]:
    """Yield another port for the scheduling routes, which SUNK has not, where a flag takes the default one."""
    taken: dict[KeyPath, int] = {one.path: port for one in given if (port := _port(one.value)) is not None}
    if SCHEDULING_PORT not in taken.values():
        return
    used = set((_DEFAULT_PORTS | taken).values())
    port = next(port for port in range(SCHEDULING_PORT, SCHEDULING_PORT + 100) if port not in used)
    yield Override(("http", "bind"), f"{LOOPBACK}:{port}", f"port {SCHEDULING_PORT} taken by another flag", weak=True)


def _port(value: Any) -> int | None:
    try:
        return read_bind_address(value).port
    except ValueError:
        return None


SUNK = "SUNK's defaults"


FENCED_GANGS = (
    "a gang gets nodes with a working fence alone: install the fence script first, or set gangs.unfenced: allow "
    "(docs/fences.md)"
)


def as_in_sunk(plan: ImportPlan) -> None:
    """Keep the behaviour of SUNK: jobs run as root, and authors of Pods may say otherwise."""
    plan.put(("jobs", "defaults", "userId"), "0", SUNK)
    plan.put(("jobs", "defaults", "groupId"), "0", SUNK)
    plan.put(("gangs", "jobs"), "indexed", SUNK)
    plan.note(
        SUNK,
        "SUNK 7.6 and later starts the Pods of a Job together; gangs.jobs: indexed does so for Indexed Jobs, all for "
        "every parallel Job, and annotated for those that say so, as before 7.6 (docs/gangs.md)",
    )
    plan.note(SUNK, FENCED_GANGS)
    allow_all_annotations(plan, SUNK)
    plan.note(
        SUNK,
        "a Pod whose grace period is not below KillWait - 5 s is accepted; jobs.strictGrace: true refuses it as "
        "SUNK does",
    )
    plan.note(
        SUNK,
        "the lock of Nodes (sunk.coreweave.com/lock) is nodes.nativeJobTaint here, off until it is set (docs/nodes.md)",
    )
    plan.note(
        SUNK,
        "where slurmd runs in Pods, nodes.slurmdPods has to name their labels and namespace (docs/nodes.md)",
    )


def allow_all_annotations(plan: ImportPlan, source: str) -> None:
    """Allow every annotation that SUNK obeys: here a site lists those that need an administrator's token."""
    plan.put(("jobs", "allow"), ["user-id", "group-id", "priority"], source)
    plan.note(
        source,
        "jobs.allow lets every author of Pods be any user of Slurm, as before; docs/policy.md describes how to "
        "restrict this",
    )
    for key in ("partitions", "accounts", "qos", "reservations", "mcsLabels"):
        plan.put(("jobs", key), ["*"], source)
    plan.put(("jobs", "underAccounting"), "warn", source)
    plan.note(
        source,
        "jobs.partitions, accounts, qos, reservations and mcsLabels let every author of Pods name any, and "
        "jobs.underAccounting lets Slurm count less than a Pod uses, as before; docs/policy.md describes how to "
        "restrict this",
    )


_BINDS = {
    "health-probe-bind-address": ":8081",
    "metrics-bind-address": ":8082",
    "hooks-api-bind-address": ":8000",
}
"""Flags about listeners, and the addresses of the shipped manifests."""

KNOWN = frozenset(flag.name for flag in SUNK_FLAGS)
SWITCHES = frozenset({"v", "help", "leader-elect", "zap-devel"})
"""Flags that may stand alone."""


def are_flags(arguments: Iterable[str]) -> bool:
    """Return whether some of the arguments are flags of SUNK's scheduler."""
    return any(name in KNOWN for name, _ in pairs(list(arguments)))


def take_flags(arguments: list[str], plan: ImportPlan) -> None:
    """Take over what the flags say."""
    for name, text in pairs(arguments):
        source = f"--{name}"
        if name not in KNOWN:
            plan.note(source, "no known flag of SUNK's scheduler")
        elif name == "slurm-auth-token":
            plan.note(source, f"a token belongs in a Secret: put it where slurm.tokenFile says ({TOKEN_FILE})")
        elif "$(" in text:
            plan.note(source, f"{text} comes from the environment of the container: give its value")
        elif name in _BINDS:
            if text != (own := _BINDS[name]):
                plan.note(source, f"the shipped manifests listen at {own} for it, and their Services lead there")
        elif name == "slurm-api-base":
            plan.put(("slurm", "addresses"), [_slurmrestd(text, plan)], source)
        else:
            found = from_flags({name: text})
            for fault in found.faults:
                plan.note(source, f"cannot be used: {fault}")
            for one in found.values:
                if not one.weak:
                    plan.put(one.path, one.value, source)
    as_in_sunk(plan)


def pairs(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each flag: `--name=text`, `--name text`."""
    left = list(arguments)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word.strip("-") == "":
            continue
        name, equals, text = word.lstrip("-").partition("=")
        if not equals and name not in SWITCHES and left and not left[0].startswith("--"):
            text = left.pop(0)
        yield name, text


def _slurmrestd(text: str, plan: ImportPlan) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        if parts.port != SLURMCTLD_PORT or not parts.hostname:
            return url
    except ValueError:
        return url
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    plan.note(
        "--slurm-api-base",
        f"{text} is slurmctld's own port; a slurmrestd is needed, and http://{host}:{SLURMRESTD_PORT} is a guess",
    )
    return f"http://{host}:{SLURMRESTD_PORT}"


Values = Mapping[str, Any]

_DEPLOYMENT = "of the Deployment: manifests/base has its own"
_CONNECTION = "of SUNK's connection to slurmctld; the extender uses slurmrestd"

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
    "scheduler.pollInterval": "states of all jobs are polled every 0.2 s to 1 s (polling.{min,max}Interval)",
    "scheduler.terminationOffset": "the end of a Pod is counted from its own grace, and hooks.wait bounds the script",
}

_SUNK_KEYS = {"scheduler", "slurmConfig"}

MOST_CONNECTIONS = 8


def are_values(document: Values) -> bool:
    """Return whether the values look like those of SUNK's chart."""
    scheduler = document.get("scheduler")
    keys = scheduler.keys() if isinstance(scheduler, dict) else set()
    scheduler_keys = {"scope", "config"} & keys or ("enabled" in keys and keys <= {"enabled", "name", *_WHY})
    # Other charts of Slurm have `compute` and `controller` too.
    return bool(scheduler_keys) or ({"compute", "controller"} <= document.keys() and bool(document.keys() & _SUNK_KEYS))


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
            plan.note(f"scheduler.{key}", _WHY.get(key, "no counterpart"))
    if not scheduler.get("name"):
        plan.note(
            "scheduler.name",
            "not set: SUNK's is NAMESPACE-RELEASE; set scheduler.name to what your Pods have in spec.schedulerName",
        )
    _slurm_conf(plan.map(document.get("slurmConfig"), "slurmConfig"), plan)
    for key in document:
        if key not in _SUNK_KEYS:
            plan.note(key, "of the rest of the chart, which runs Slurm itself; it stays as it is")
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
        plan.note(f"scheduler.scope.{key}", "no counterpart")


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
                plan.note(source, _CONFIG_WHY.get(name, "no counterpart"))


def _slurm_conf(conf: Values, plan: ImportPlan) -> None:
    others = []
    for key, value in _leaves(conf):
        if key.rpartition(".")[2].lower() == "killwait":
            seconds = f"{value}s" if str(value).isdecimal() else value
            plan.put(("slurm", "killWait"), seconds, f"slurmConfig.{key}")
        else:
            others.append(key)
    if others:
        plan.note(f"slurmConfig ({', '.join(others)})", "of slurm.conf; `slurm-extender doctor` reports harmful values")


def _leaves(values: Values, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
