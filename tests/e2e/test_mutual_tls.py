"""kube-scheduler and the extender know each other by certificates that the extender's own command made."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

import pytest

from lab import manifests
from lab.credentials import CERTIFICATES
from lab.extender import PROGRAM
from lab.process import Daemon
from lab.secrets_folder import mount
from lab.site import Site

NAMESPACE = "slurm-extender"


@dataclass(frozen=True, slots=True)
class Secured:
    """A site whose scheduler and extender speak TLS."""

    site: Site
    scheduler: Daemon
    folder: Path

    @property
    def own(self) -> Path:
        return self.folder / "slurm-extender-tls"

    def status_of(self, client: Path | None, *, plainly: bool = False) -> int:
        """The status of a call to the scheduling routes, with or without a client's certificate."""
        context = ssl.create_default_context(cafile=str(self.own / "ca.crt"))
        if client is not None:
            context.load_cert_chain(client / "tls.crt", client / "tls.key")
        at = ("127.0.0.1", self.site.addresses.scheduling)
        connection = HTTPConnection(*at, timeout=10) if plainly else HTTPSConnection(*at, timeout=10, context=context)
        try:
            connection.request("POST", "/scheduler/filter", "{}", {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()


def certificates(site: Site, *options: str) -> str:
    """Run the command with exactly the rights that the manifests give it."""
    kubeconfig = site.kube.kubeconfig_for(CERTIFICATES)
    done = subprocess.run(
        [str(PROGRAM), "generate", "certificates", "--kubeconfig", str(kubeconfig), "--san", "127.0.0.1", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def mounted(site: Site, folder: Path) -> None:
    for name in ("slurm-extender-tls", "slurm-scheduler-tls"):
        mount(site.kube, NAMESPACE, name, folder / name)


@contextmanager
def secured(site: Site) -> Iterator[Secured]:
    """The site's own kube-scheduler is away meanwhile, and one with the profile of `manifests/base` is there."""
    documents = manifests.shipped(site.kube, manifests.BASE)
    manifests.apply_rights(site.kube, documents)
    certificates(site)
    folder = site.home / "tls"
    mounted(site, folder)
    own = folder / "slurm-extender-tls"
    files = {"certificateFile": own / "tls.crt", "keyFile": own / "tls.key", "clientCaFile": own / "ca.crt"}
    url = f"https://127.0.0.1:{site.addresses.scheduling}/scheduler"
    profile = manifests.scheduler_profile(documents, url, folder / "slurm-scheduler-tls")
    account, gates = manifests.scheduler_deployment(documents)
    site.scheduler.stop()
    try:
        site.reconfigure({"http": {"tls": {key: str(file) for key, file in files.items()}}})
        scheduler = site.kube.start_scheduler(profile, user=account, feature_gates=gates, name="slurm-scheduler-tls")
        try:
            yield Secured(site, scheduler, folder)
        finally:
            scheduler.stop()
    finally:
        site.reconfigure()
        site.scheduler.start()


@pytest.mark.every_kubernetes
@pytest.mark.modes(slow=("24.11", "older"))
def test_pods_are_bound_with_mutual_tls_and_go_on_when_every_certificate_is_renewed(site: Site) -> None:
    namespace = site.namespace("mutual-tls")
    with secured(site) as found:
        first = site.pod("before", namespace)
        assert site.bound(first)

        scheduler = found.folder / "slurm-scheduler-tls"
        with pytest.raises((OSError, HTTPException)):
            found.status_of(None)
        with pytest.raises((OSError, HTTPException)):
            found.status_of(scheduler, plainly=True)
        # No call that kube-scheduler would make, but one that is answered.
        assert found.status_of(scheduler) in {200, 400}

        assert certificates(site) == "every certificate is valid\n"
        served = (found.own / "tls.crt").read_text()
        processes = (site.extender.pid, found.scheduler.pid)
        assert "a new certificate" in certificates(site, "--renew")
        mounted(site, found.folder)
        assert (found.own / "tls.crt").read_text() != served
        second = site.pod("after", namespace)
        assert site.bound(second)
        assert (site.extender.pid, found.scheduler.pid) == processes
        assert site.metric("certificate_expiry_timestamp_seconds") > 0

        for pod in (first, second):
            site.delete(pod)
            site.gone(pod)
