"""The doctor in front of real parts: what it says of a site that is well, and of one mistake at a time."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest
import yaml

from extender.domain.wellknown import SCHEDULER_NAME
from extender.kube.lease import micro_time
from lab import manifests
from lab.clock import now
from lab.credentials import ADMIN
from lab.extender import PROGRAM
from lab.site import Site

Found = dict[str, list[dict[str, str]]]

about_kubernetes = pytest.mark.modes(slow=("24.11", "older"))
"""What is found has nothing to do with the release of Slurm; one of them in every run is enough."""


def examined(site: Site, *words: str, stdin: str = "", code: int = 0, config: bool = True) -> Found:
    """The findings by check."""
    said = ["--config", str(site.config_path)] if config else []
    command = [str(PROGRAM), "doctor", *said, "-o", "json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, input=stdin)
    found: Found = {}
    print(done.stderr)
    for one in json.loads(done.stdout)["findings"]:
        print(f"{one['verdict']:8} {one['check']}: {one['seen']}")
        found.setdefault(one["check"], []).append(one)
    assert done.returncode == code, done.stdout
    return found


def verdicts(found: Found) -> dict[str, set[str]]:
    return {check: {one["verdict"] for one in ones} for check, ones in found.items()}


def as_administrator(site: Site) -> list[str]:
    return ["--set", f"kubernetes.kubeconfig={site.kube.kubeconfig_for(ADMIN)}"]


def profile(site: Site, **changed: Any) -> str:
    """The site's kube-scheduler configuration, with its extender changed."""
    documents = manifests.shipped(site.kube)
    text = manifests.scheduler_profile(documents, f"http://127.0.0.1:{site.addresses.scheduling}/scheduler")
    document = yaml.safe_load(text)
    document["extenders"][0].update(changed)
    return yaml.safe_dump(document)


@pytest.mark.every_kubernetes
def test_nothing_is_wrong_with_a_site_that_works(site: Site) -> None:
    conf = site.slurm.run("scontrol", "show", "config")
    found = examined(site, "--slurm-conf", "-", stdin=conf)
    said = verdicts(found)
    for check in ("slurmrestd", "token", "clock", "kubernetes", "rights", "nodes", "KillWait", "files"):
        assert said[check] == {"ok"}, found[check]
    # The site has partitions of external nodes and no PrologSlurmctld, so that no mode is safe there; and no gate.
    unsafe = [one["seen"] for one in found["extender"] if one["verdict"] != "ok"]
    assert all(one.startswith(("fences: partition ext-", "gates: the newest Pod")) for one in unsafe), unsafe
    assert site.release in found["slurmrestd"][0]["seen"]


@pytest.mark.every_kubernetes
@about_kubernetes
def test_an_administrator_sees_what_the_account_may_not(site: Site) -> None:
    assert verdicts(examined(site))["gates"] == {"skipped"}
    found = examined(site, *as_administrator(site))
    assert verdicts(found)["gates"] == {"warning"}
    assert "has all" in found["rights"][0]["seen"]
    assert found["rights"][0]["seen"].startswith("system:serviceaccount:slurm-extender:slurm-extender")


@about_kubernetes
def test_the_configuration_of_the_cluster_is_taken_where_none_is_given(site: Site) -> None:
    documents = manifests.of_kind(manifests.render(site.kube, manifests.CORE), ["ConfigMap", "Deployment", "Service"])
    for one in documents:
        if one["kind"] == "Deployment":
            one["spec"]["replicas"] = 0
    site.kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    try:
        here = [
            "--set",
            f"slurm.addresses=[{site.slurm.rest_url}]",
            "--set",
            f"slurm.tokenFile={site.home}/slurm.token",
        ]
        found = examined(site, *here, *as_administrator(site), "--set", "slurm.user=root", config=False, code=1)
    finally:
        site.kube.kubectl("-n", "slurm-extender", "delete", "deployments,configmaps,services", "--all")
    assert verdicts(found)["token"] == {"ok"}
    assert verdicts(found)["kube-scheduler"] == {"ok"}
    said = [one["seen"] for one in found["mounts"] if one["verdict"] == "error"]
    assert said == [
        "Secret slurm-extender, which slurm-extender mounts at /etc/slurm-extender/secret, does not exist",
    ]


@about_kubernetes
def test_who_puts_the_gate_on_pods_is_known_by_the_real_policy(site: Site) -> None:
    policy = str(manifests.BASE.parent / "components" / "gate-policy" / "policy.yaml")
    site.kube.kubectl("apply", "-f", policy)
    try:
        assert verdicts(examined(site, *as_administrator(site)))["gates"] == {"ok"}
    finally:
        site.kube.kubectl("delete", "-f", policy)


@about_kubernetes
def test_two_leases_of_one_scheduler_name_are_two_extenders(site: Site) -> None:
    leases = [lease(f"doctor-{number}", f"extender-{number}") for number in (1, 2)]
    try:
        site.kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(leases[0]))
        assert verdicts(examined(site, *as_administrator(site)))["extenders"] == {"ok"}
        site.kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(leases[1]))
        found = examined(site, *as_administrator(site), code=1)
        assert (
            "default/doctor-1 held by extender-1; default/doctor-2 held by extender-2" in found["extenders"][0]["seen"]
        )
    finally:
        site.kube.kubectl("delete", "leases", "doctor-1", "doctor-2", "--ignore-not-found")


def lease(name: str, holder: str) -> dict[str, Any]:
    """As a leader writes it, alive for ten minutes."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default", "annotations": {SCHEDULER_NAME: "slurm"}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 600, "renewTime": micro_time(now())},
    }


def test_slurm_conf_is_shown_by_slurmrestd_from_26_05_on(site: Site) -> None:
    said = verdicts(examined(site))
    if site.release == "26.05":
        assert said["KillWait"] == {"ok"}
        assert said["SelectType"] == {"ok"}
    else:
        assert said["slurm.conf"] == {"skipped"}


def test_a_job_calls_the_hooks_from_a_node(site: Site) -> None:
    found = examined(site, "--submit-probe", "--probe-partition", "batch")
    assert verdicts(found)["probe"] == {"ok"}, found["probe"]
    assert not site.squeue()


def test_hooks_that_no_node_reaches_are_found_by_the_job(site: Site) -> None:
    nowhere = ["--set", "hooks.url=http://127.0.0.1:9", "--submit-probe", "--probe-partition", "batch"]
    found = examined(site, *nowhere, code=1)
    assert "nothing answered" in found["probe"][0]["seen"]


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_a_probe_is_not_left_behind_by_a_doctor_that_is_ended(site: Site, ends: signal.Signals) -> None:
    command = [str(PROGRAM), "doctor", "--config", str(site.config_path), "--submit-probe", "--probe-partition=batch"]
    site.slurm.run("scontrol", "update", "partitionname=batch", "state=down")
    doctor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        [job] = site.wait_for(site.squeue, "the probe is in Slurm's queue")
        doctor.send_signal(ends)
        doctor.wait()
        if ends is signal.SIGKILL:
            # Nobody is left to cancel it, but Slurm.
            assert site.scontrol_show_job(job.job_id)["Deadline"] != "N/A"
            site.slurm.run("scancel", str(job.job_id))
        site.wait_for(lambda: not site.squeue(), "no probe is left")
    finally:
        site.slurm.run("scontrol", "update", "partitionname=batch", "state=up")
        if doctor.poll() is None:
            doctor.kill()
            doctor.wait()


def test_a_token_of_an_ordinary_user_is_found(site: Site) -> None:
    token = site.home / "alice.token"
    token.write_text(site.slurm.token("alice"))
    found = examined(site, "--set", f"slurm.tokenFile={token}", "--set", "slurm.user=alice", code=1)
    assert "alice may not change nodes and jobs of others" in found["token"][0]["seen"]


def test_a_token_that_slurm_refuses_is_found(site: Site) -> None:
    token = site.home / "forged.token"
    token.write_text("forged")
    found = examined(site, "--set", f"slurm.tokenFile={token}", code=1)
    assert found["token"][0]["verdict"] == "error"


@pytest.mark.every_kubernetes
@about_kubernetes
def test_a_profile_that_does_not_reach_the_extender_is_found(site: Site) -> None:
    path = site.home / "kube-scheduler.yaml"
    path.write_text(profile(site))
    good = examined(site, "--scheduler-config", str(path))
    assert verdicts(good)["kube-scheduler"] == {"ok"}
    path.write_text(profile(site, ignorable=True))
    bad = examined(site, "--scheduler-config", str(path), code=1)
    assert "ignorable is true" in bad["kube-scheduler"][0]["seen"]
