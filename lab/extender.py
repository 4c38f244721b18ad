"""The extender as the process that a site runs: its configuration, its start, and its logs."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.errors import LabError
from lab.ports import Ports
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox

PROGRAM = Path(sys.executable).with_name("slurm-extender")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Hold the addresses on loopback where one extender listens."""

    scheduling: int
    hooks: int
    health: int
    metrics: int
    debug: int

    @classmethod
    def take(cls, ports: Ports) -> "Addresses":
        """Five free ports."""
        return cls(*(ports.take() for _ in range(5)))


def configuration(
    addresses: Addresses, home: Path, *, slurm_url: str, kubeconfig: Path, overrides: Mapping[str, Any]
) -> str:
    """Return the configuration file of a site. ``overrides`` maps groups to keys laid over the lab's own."""
    document: dict[str, Any] = {
        "apiVersion": "slurm-extender.io/v1alpha1",
        "kind": "ExtenderConfiguration",
        "kubernetes": {"kubeconfig": str(kubeconfig)},
        "slurm": {"addresses": [slurm_url], "tokenFile": str(home / "slurm.token"), "user": "root"},
        "http": {"bind": _loopback(addresses.scheduling)},
        "hooks": {
            "bind": _loopback(addresses.hooks),
            "url": f"http://{_loopback(addresses.hooks)}",
            "keyFile": str(home / "hooks.key"),
        },
        # What Pods may name is not what most tests are about: those that are give lists of their own.
        "jobs": {key: ["*"] for key in ("partitions", "accounts", "qos", "reservations", "mcsLabels")},
        "observability": {
            "healthBind": _loopback(addresses.health),
            "metricsBind": _loopback(addresses.metrics),
            "debugBind": _loopback(addresses.debug),
            "logLevel": "debug",
        },
    }
    for group, keys in overrides.items():
        document[group] = {**document.get(group, {}), **keys}
    return yaml.safe_dump(document, sort_keys=False)


def extender(sandbox: Sandbox, home: Path, config: Path, addresses: Addresses) -> Daemon:
    """Return the daemon, ready when ``/readyz`` says so; raises LabError where the program is not installed."""
    if not PROGRAM.exists():
        raise LabError(f"{PROGRAM} does not exist: run `make setup`")
    health = f"http://{_loopback(addresses.health)}"
    return Daemon(
        "slurm-extender",
        sandbox,
        [str(PROGRAM), "serve", "--config", str(config)],
        log=home / "slurm-extender.log",
        url=health,
        ready=lambda: answers_ok(f"{health}/readyz"),
    )


def log_entries(path: Path) -> list[dict[str, Any]]:
    """Return the JSON lines of a log; other lines (a traceback) as ``{"event": line}``."""
    entries = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        entries.append(entry if isinstance(entry, dict) else {"event": line})
    return entries


def _loopback(port: int) -> str:
    return f"127.0.0.1:{port}"
