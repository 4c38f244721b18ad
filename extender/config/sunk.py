"""SUNK's flags, said as keys of our document, so that its Deployments need new images only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from extender.config.keys import Path
from extender.config.override import Override, Overrides

_ZAP_LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "error": "error", "panic": "error"}


@dataclass(frozen=True, slots=True)
class SunkFlag:
    """One flag. `read` turns its text into the key's value and raises `ValueError` with what is allowed."""

    name: str
    path: Path | None
    read: Callable[[str], Any]
    help: str


def _itself(text: str) -> Any:
    return text


def _address(text: str) -> Any:
    return [text if "://" in text else f"http://{text}"]


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
    """`given` maps the names of flags, without dashes, to their text. An empty text says nothing."""
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
    return Overrides(tuple(values), tuple(faults))
