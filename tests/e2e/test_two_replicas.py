"""Two extender processes under load: the leader is killed, told to end, and stopped for longer than its Lease."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any

import pytest

from extender.domain.election import ElectionTiming
from lab.cache import cache_folder
from lab.clock import now
from lab.credentials import EXTENDER
from lab.extender import Addresses, configuration
from lab.ports import Ports
from lab.process import Daemon
from lab.site import PodRef, Site
from lab.switch import Switch
from tests.builders.stage import Stage
from tests.e2e.conftest import CONFIG

LEASE_S = ElectionTiming().lease
SLACK_S = 2.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/slurm-extender/leases/slurm-extender"
Settings = Mapping[str, Mapping[str, Any]]
STAY = 6
"""Pods of the load that are there at a time."""


@contextmanager
def two(site: Site, settings: Settings | None = None, *, by_turns: bool = True) -> Iterator[dict[str, Daemon]]:
    """The site's own process as replica `a`, and `b` beside it. kube-scheduler and hooks reach them by turns.

    With `by_turns` it is held that they did: not for a test that kills one of them before it is called.
    """
    with ExitStack() as stack:
        ports = stack.enter_context(Ports(cache_folder() / "ports"))
        own, other = Addresses.take(ports), Addresses.take(ports)
        scheduling = stack.enter_context(Switch(site.addresses.scheduling, (own.scheduling, other.scheduling)))
        hooks = stack.enter_context(Switch(site.addresses.hooks, (own.hooks, other.hooks)))
        daemons = {
            name: stack.enter_context(replica(site, name, at, settings)) for name, at in (("a", own), ("b", other))
        }
        daemons["a"].start()
        site.wait_for(lambda: holder(site) == "a", "a leads", timeout_s=60)
        daemons["b"].start()
        yield daemons
        for switch in (scheduling, hooks):
            called = switch.taken.values()
            assert not by_turns or all(called) or sum(called) < 2, f"not called by turns: {switch.taken}"


@contextmanager
def replica(site: Site, name: str, addresses: Addresses, settings: Settings | None = None) -> Iterator[Daemon]:
    """One process of its own, under the site's configuration with these settings."""
    home = site.home / name
    home.mkdir(exist_ok=True)
    overrides: dict[str, dict[str, Any]] = {**CONFIG, "leaderElection": {"enabled": True, "identity": name}}
    overrides["hooks"] = {**CONFIG["hooks"], "url": f"http://127.0.0.1:{site.addresses.hooks}"}
    for group, keys in (settings or {}).items():
        overrides[group] = {**overrides.get(group, {}), **keys}
    text = configuration(
        addresses,
        site.home,
        slurm_url=site.slurm.rest_url,
        kubeconfig=site.kube.kubeconfig_for(EXTENDER),
        overrides=overrides,
    )
    (home / "config.yaml").write_text(text)
    daemon = site.another_extender(home, home / "config.yaml", addresses)
    try:
        yield daemon
    finally:
        daemon.stop()


@contextmanager
def instead_of_its_own(site: Site) -> Iterator[None]:
    """The site's own process is away meanwhile, and its addresses are free. No Lease is left: it has none."""
    site.stop_extender()
    try:
        yield
    finally:
        site.kube.api("DELETE", LEASE)
        site.start_extender()


def lease(site: Site) -> dict[str, object]:
    status, found = site.kube.api("GET", LEASE)
    spec: dict[str, object] = found["spec"] if status == 200 else {}
    return spec


def holder(site: Site) -> str:
    return str(lease(site).get("holderIdentity") or "").partition("_")[0]


def followed(site: Site, name: str, what: str, since: float) -> float:
    """Wait until this replica leads; the seconds until it took the Lease, its first write, by what stands in it."""
    site.wait_for(lambda: holder(site) == name, f"{name} leads", timeout_s=60, every_s=0.02)
    acquired = datetime.fromisoformat(str(lease(site)["acquireTime"]).replace("Z", "+00:00"))
    took = acquired.timestamp() - since
    print(f"{what}: {name} took the Lease after {took:.2f} s, seen after {now() - since:.2f} s")
    return took


class Load:
    """Pods that are created and deleted all the time, by a thread; `pods` are those that stay.

    One every `every_s` seconds. `served`: none is deleted before it has its node.
    """

    def __init__(self, stage: Stage, *, every_s: float = 0.7, served: bool = False) -> None:
        self.pods: list[PodRef] = []
        self.ever: list[PodRef] = []
        self._stage = stage
        self._every_s = every_s
        self._served = served
        self._stopped = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._go, name="load")

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def check(self) -> None:
        """Raises what went wrong in it."""
        if self._fault is not None:
            raise self._fault

    def rest(self) -> None:
        """Let it end; raises what went wrong in it."""
        self.__exit__()
        self.check()

    def _go(self) -> None:
        try:
            while not self._stopped.wait(self._every_s):
                self.pods.append(self._stage.pod(f"load-{len(self.ever)}", cpus=1))
                self.ever.append(self.pods[-1])
                if len(self.pods) > STAY:
                    leaves = self.pods.pop(len(self.ever) % 3)
                    if self._served:
                        self._stage.site.bound(leaves, timeout_s=60)
                    self._stage.site.delete(leaves)
        except BaseException as error:
            self._fault = error


@pytest.mark.modes("batch", "allocation", slow=("24.11", "26.05-allocation"))
def test_a_leader_that_leaves_in_any_way_is_followed_and_no_pod_is_lost_or_doubled(stage: Stage) -> None:
    site = stage.site
    with instead_of_its_own(site), two(site) as daemons, Load(stage) as load:
        a, b = daemons["a"], daemons["b"]
        site.elapse(6)

        since = now()
        a.kill()
        assert followed(site, "b", "SIGKILL", since) <= LEASE_S + SLACK_S
        a.start()
        site.elapse(4)

        since = now()
        os.kill(b.pid, signal.SIGTERM)
        assert followed(site, "a", "SIGTERM", since) <= SLACK_S
        site.wait_for(lambda: not b.running, "the old leader ends", timeout_s=30)
        b.start()
        site.elapse(4)

        since = now()
        os.kill(a.pid, signal.SIGSTOP)
        try:
            assert followed(site, "b", "SIGSTOP", since) <= LEASE_S + SLACK_S
            site.elapse(4)
        finally:
            os.kill(a.pid, signal.SIGCONT)
        site.wait_for(lambda: not a.running, "the stopped leader ends its process", timeout_s=30)
        a.start()
        site.elapse(2)

        load.rest()
        no_pod_lost_or_doubled(stage, load)


def no_pod_lost_or_doubled(stage: Stage, load: Load) -> None:
    """Every Pod that stays runs on the one job that was ever made for it; no other Pod has a live one, or had two."""
    site = stage.site
    for pod in load.pods:
        site.bound(pod, timeout_s=90)
    site.wait_for(lambda: len(stage.jobs()) == len(load.pods), "no job without its Pod", timeout_s=90)
    assert {pod.name: len(stage.jobs(pod)) for pod in load.pods} == {pod.name: 1 for pod in load.pods}
    ran = granted(stage)
    print(f"{len(load.ever)} Pods, {sum(ran.values())} jobs that were given nodes")
    assert {name: count for name, count in ran.items() if count > 1} == {}
    assert {pod.name for pod in load.pods} <= ran.keys()


def granted(stage: Stage) -> Counter[str]:
    """How many jobs that were given nodes each Pod of the stage ever had, by all that Slurm remembers."""
    whole = (job for job in stage.jobs(states="all") if job.node)
    return Counter(job.name.rpartition("-")[0].partition("/")[2] for job in whole)
