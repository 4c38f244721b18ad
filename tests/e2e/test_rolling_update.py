"""Both replicas are replaced, as the Deployment says, while Pods flow: no call of kube-scheduler fails."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.cache import cache_folder
from lab.clock import now
from lab.extender import Addresses
from lab.ports import Ports
from lab.process import Daemon
from lab.site import PodRef, Site
from lab.switch import Switch
from tests.builders.kustomize import of_kind
from tests.builders.stage import Stage
from tests.e2e.test_two_replicas import granted, holder, instead_of_its_own, replica

PODS = 200
STAY = 8
"""Pods that are there at a time."""

NOTICED_S = 1.0
"""After which the Service leads nobody to a Pod that is being ended any more."""

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

    def add(self, name: str) -> None:
        """Start one, and lead calls to it once it is Ready."""
        at = Addresses.take(self._ports)
        daemon = self._stack.enter_context(replica(self._site, name, at))
        daemon.start()
        for switch, port in zip(self._switches, (at.scheduling, at.hooks), strict=True):
            switch.add(port)
        self.replicas[name] = daemon, at

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


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_rolling_update_among_flowing_pods_costs_no_call_and_no_pod(stage: Stage) -> None:
    site, wait = stage.site, pre_stop_s()
    with service(site) as replicas:
        for name in ("a", "b"):
            replicas.add(name)
        site.wait_for(lambda: holder(site) in {"a", "b"}, "one leads", timeout_s=60)
        before = site.scheduler.log.stat().st_size
        made: list[PodRef] = []
        there: list[PodRef] = []

        def flow(count: int) -> None:
            for _ in range(count):
                there.append(stage.pod(f"load-{len(made)}", cpus=1))
                made.append(there[-1])
                if len(there) > STAY:
                    pod = there.pop(0)
                    site.bound(pod, timeout_s=60)
                    site.delete(pod)

        began = now()
        flow(PODS // 4)
        for old, new in (("a", "c"), ("b", "d")):
            replicas.add(new)
            flow(PODS // 8)
            replicas.end(old, wait)
            flow(PODS // 8)
        flow(PODS // 4)
        for pod in there:
            site.bound(pod, timeout_s=60)
        print(f"{len(made)} Pods in {now() - began:.0f} s")
        assert len(made) == PODS
        assert holder(site) in {"c", "d"}
        log = site.scheduler.log.read_bytes()[before:].decode(errors="replace")
        assert [line for line in log.splitlines() if FAILED_CALL.search(line)] == []
        ran = granted(stage)
        assert {name: count for name, count in ran.items() if count > 1} == {}
        for pod in there:
            assert len(stage.jobs(pod)) == 1
