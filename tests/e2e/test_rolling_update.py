"""Both replicas are replaced, as the Deployment says, while Pods flow: no call of kube-scheduler fails."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from lab.cache import cache_folder
from lab.clock import now
from lab.extender import Addresses, log_entries
from lab.ports import Ports
from lab.process import Daemon
from lab.site import Site
from lab.switch import Switch
from tests.builders.kustomize import of_kind
from tests.builders.stage import Stage
from tests.e2e.test_two_replicas import (
    LEASE_S,
    Load,
    holder,
    instead_of_its_own,
    no_pod_lost_or_doubled,
    replica,
)

PODS = 200

NOTICED_S = 1.0
"""After this time the Service sends no calls to a Pod that is being ended."""

FAILED_CALL = re.compile(r"connection refused|connection reset|EOF|Client\.Timeout|extender.*(?:failed|unavailable)")


class Service:
    """What leads to the replicas: those that are Ready, and for a moment one that is being ended."""

    def __init__(self, site: Site, stack: ExitStack) -> None:
        self._site = site
        self._stack = stack
        self._ports = stack.enter_context(Ports(cache_folder() / "ports"))
        self._switches = (
            stack.enter_context(Switch(site.addresses.scheduling, (), patient=False)),
            stack.enter_context(Switch(site.addresses.hooks, (), patient=False)),
        )
        self.replicas: dict[str, tuple[Daemon, Addresses]] = {}
        self.logs: list[Path] = []

    def add(self, name: str) -> None:
        """Start one, and lead calls to it once it is Ready."""
        at = Addresses.take(self._ports)
        daemon = self._stack.enter_context(replica(self._site, name, at))
        daemon.start()
        for switch, port in zip(self._switches, (at.scheduling, at.hooks), strict=True):
            switch.add(port)
        self.replicas[name] = daemon, at
        self.logs.append(daemon.log)

    def end(self, name: str, pre_stop_s: float) -> None:
        """As kubelet and kube-proxy do: both hear of it at once, and SIGTERM comes after `preStop`."""
        daemon, at = self.replicas.pop(name)

        def leave() -> None:
            for switch, port in zip(self._switches, (at.scheduling, at.hooks), strict=True):
                switch.remove(port)

        def terminate() -> None:
            os.kill(daemon.pid, signal.SIGTERM)

        gone = 0.0
        for at_s, act in sorted(((NOTICED_S, leave), (pre_stop_s, terminate)), key=lambda one: one[0]):
            self._site.elapse(at_s - gone)
            act()
            gone = at_s
        self._site.wait_for(lambda: not daemon.running, f"{name} ends", timeout_s=30)


@contextmanager
def service(site: Site) -> Iterator[Service]:
    with instead_of_its_own(site), ExitStack() as stack:
        yield Service(site, stack)


def pre_stop_s() -> float:
    """What the shipped Deployment says."""
    spec = of_kind("Deployment")["slurm-extender"]["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    [container] = spec["template"]["spec"]["containers"]
    return float(container["lifecycle"]["preStop"]["sleep"]["seconds"])


def pauses(logs: Iterable[Path], since: float) -> list[float]:
    """The seconds between one Binding and the next since then, whichever replica wrote them; the longest first."""
    entries = (entry for log in logs for entry in log_entries(log) if entry.get("msg") == "pod_bound")
    # Others of this site have replicas of these names, too, and their logs go on.
    at = sorted(told for entry in entries if (told := datetime.fromisoformat(entry["ts"]).timestamp()) > since)
    return sorted((after - before for before, after in pairwise(at)), reverse=True)


@pytest.mark.slow
@pytest.mark.modes("batch", "external")
def test_a_rolling_update_among_flowing_pods_costs_no_call_and_no_pod(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    site, wait = stage.site, pre_stop_s()
    with service(site) as replicas:
        for name in ("a", "b"):
            replicas.add(name)
        site.wait_for(lambda: holder(site) in {"a", "b"}, "one leads", timeout_s=60)
        began, before = now(), site.scheduler.log.stat().st_size
        with Load(stage, every_s=0.1, served=True) as load:

            def flowed(wanted: int) -> bool:
                load.check()
                return len(load.ever) >= wanted

            def flow(count: int) -> None:
                wanted = len(load.ever) + count
                site.wait_for(lambda: flowed(wanted), "Pods flow", timeout_s=300)

            flow(PODS // 4)
            meanwhile = 0
            for old, new in (("a", "c"), ("b", "d")):
                replicas.add(new)
                known = len(load.ever)
                replicas.end(old, wait)
                meanwhile += len(load.ever) - known
            assert meanwhile, "nothing flowed while the replicas were replaced"
            flow(max(PODS // 4, PODS - len(load.ever)))
            load.rest()
        no_pod_lost_or_doubled(stage, load)
        assert len(load.ever) >= PODS
        assert holder(site) in {"c", "d"}
        log = site.scheduler.log.read_bytes()[before:].decode(errors="replace")
        assert [line for line in log.splitlines() if FAILED_CALL.search(line)] == []
        longest, *_ = pauses(replicas.logs, began)
        assert longest < LEASE_S, "the Lease was not handed over, but ran out"
        row = {"Slurm": site.release, "mode": stage.mode, "Pods": str(len(load.ever))}
        record_property("table: A rolling update", row | {"longest time without a Binding": f"{longest:.1f} s"})
