"""Two extender processes under load: the leader is killed, told to end, and stopped for longer than its Lease."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.cache import cache_folder
from lab.clock import elapsed
from lab.credentials import EXTENDER
from lab.extender import Addresses, configuration, extender
from lab.ports import Ports
from lab.process import Daemon
from lab.site import PodRef, Site
from tests.builders.stage import Stage
from tests.e2e.conftest import CONFIG

LEASE_S = 15.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/slurm-extender/leases/slurm-extender"


def holder(site: Site) -> str:
    status, lease = site.kube.api("GET", LEASE)
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0] if status == 200 else ""


def led_by(site: Site, name: str, what: str, since: float | None = None) -> float:
    """Wait until this replica holds the Lease; the seconds that it took, from `since` on."""
    began = elapsed() if since is None else since
    site.wait_for(lambda: holder(site) == name, f"{name} leads", timeout_s=60, every_s=0.02)
    took = elapsed() - began
    print(f"{what}: {name} leads after {took:.2f} s")
    return took


@contextmanager
def two(site: Site) -> Iterator[tuple[Daemon, Daemon]]:
    """The site's own process as replica `a`, which kube-scheduler calls, and `b` beside it."""
    with ExitStack() as stack:
        addresses = Addresses.take(stack.enter_context(Ports(cache_folder() / "ports")))
        stack.callback(site.reconfigure)
        site.reconfigure({"leaderElection": {"enabled": True, "identity": "a"}})
        led_by(site, "a", "the first start")
        home = site.home / "b"
        home.mkdir(exist_ok=True)
        config = home / "config.yaml"
        overrides = {**CONFIG, "leaderElection": {"enabled": True, "identity": "b"}}
        overrides["hooks"] = {**CONFIG["hooks"], "url": f"http://127.0.0.1:{site.addresses.hooks}"}
        config.write_text(
            configuration(
                addresses,
                site.home,
                slurm_url=site.slurm.rest_url,
                kubeconfig=site.kube.kubeconfig_for(EXTENDER),
                overrides=overrides,
            )
        )
        other = extender(site._sandbox, home, config, addresses)
        stack.callback(other.stop)
        other.start()
        yield site.extender, other


@pytest.mark.modes("batch")
def test_a_leader_that_leaves_in_any_way_is_followed_and_no_pod_is_lost_or_doubled(stage: Stage) -> None:
    site = stage.site
    pods: list[PodRef] = []

    def load(word: str) -> None:
        if len(pods) > 4:
            site.delete(pods.pop(0))
        pods.extend(stage.pod(f"{word}-{number}", cpus=1) for number in range(3))

    with two(site) as (a, b):
        load("first")
        for pod in pods:
            site.bound(pod, timeout_s=60)
        load("kill")
        killed_at = elapsed()
        a.kill()
        load("killed")
        a.start()
        assert led_by(site, "b", "SIGKILL", killed_at) <= LEASE_S + 5
        for pod in pods:
            site.bound(pod, timeout_s=90)
        load("term")
        os.kill(b.pid, signal.SIGTERM)
        assert led_by(site, "a", "SIGTERM") <= 5
        b.stop()
        b.start()
        load("stop")
        os.kill(a.pid, signal.SIGSTOP)
        try:
            assert led_by(site, "b", "SIGSTOP") <= LEASE_S + 5
            site.elapse(5)
        finally:
            os.kill(a.pid, signal.SIGCONT)
        site.wait_for(lambda: not a.running, "the stopped leader ends its process", timeout_s=30)
        a.start()
        for pod in pods:
            site.bound(pod, timeout_s=90)
        site.wait_for(
            lambda: {pod.name: len(stage.jobs(pod)) for pod in pods} == dict.fromkeys([pod.name for pod in pods], 1),
            "one job for each Pod",
            timeout_s=90,
        )
        site.wait_for(lambda: len(stage.jobs()) == len(pods), "no job without its Pod", timeout_s=90)
