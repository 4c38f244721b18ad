"""Prometheus, which scrapes one extender of the lab and answers queries."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from lab import build_kubernetes, build_slurm
from lab.cache import cache_folder
from lab.errors import LabError
from lab.kube import ETCD_FROM
from lab.ports import Ports
from lab.probe import answers_ok, decoded, request
from lab.process import Daemon
from lab.sandbox import Sandbox

SCRAPE_S = 1
"""Seconds between two scrapes; rates need several."""


class Prometheus:
    """A running Prometheus at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query; raises LabError where Prometheus refuses it."""
        return self._series("query", expression, {"query": expression})

    def _series(self, endpoint: str, expression: str, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
        status, body = request("GET", f"{self._url}/api/v1/{endpoint}?{urlencode(wanted)}")
        found = decoded(body)
        if status != 200 or found.get("status") != "success":
            raise LabError(f"{expression}: Prometheus answered {status}: {found}")
        series: list[dict[str, Any]] = found["data"]["result"]
        return series

    def query_range(self, expression: str, began: float, ended: float, step_s: float) -> list[dict[str, Any]]:
        """Return the series of a range query between two Unix times; raises LabError where Prometheus refuses it."""
        wanted = {"query": expression, "start": began, "end": ended, "step": step_s}
        return self._series("query_range", expression, wanted)

    def rules(self) -> list[dict[str, Any]]:
        """Return every rule with its health, as of the last evaluation."""
        _, body = request("GET", f"{self._url}/api/v1/rules")
        return [rule for group in decoded(body)["data"]["groups"] for rule in group["rules"]]


@contextmanager
def prometheus(home: Path, metrics_port: int, rules: str, labels: dict[str, str]) -> Iterator[Prometheus]:
    """Scrape `/metrics` of a port of loopback, with these labels on every series, and evaluate a file of rules."""
    home.mkdir()
    program = build_kubernetes.build(build_kubernetes.prometheus_build()) / "prometheus"
    every = f"{SCRAPE_S}s"
    target = {"targets": [f"127.0.0.1:{metrics_port}"], "labels": labels}
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(home / "rules.yaml")],
        "scrape_configs": [{"job_name": "slurm-extender", "static_configs": [target]}],
    }
    (home / "rules.yaml").write_text(rules)
    (home / "prometheus.yaml").write_text(yaml.safe_dump(config))
    chroot = build_slurm.build(build_slurm.release(ETCD_FROM))
    with Ports(cache_folder() / "ports") as ports, Sandbox(chroot, home) as sandbox:
        url = f"http://127.0.0.1:{ports.take()}"
        daemon = Daemon(
            "prometheus",
            sandbox,
            [
                str(program),
                f"--config.file={home / 'prometheus.yaml'}",
                f"--storage.tsdb.path={home / 'data'}",
                f"--web.listen-address={url.removeprefix('http://')}",
            ],
            log=home / "prometheus.log",
            url=url,
            ready=lambda: answers_ok(f"{url}/-/ready"),
        )
        daemon.start()
        try:
            yield Prometheus(url)
        finally:
            daemon.stop()
