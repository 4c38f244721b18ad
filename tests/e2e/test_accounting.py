"""Pods on a site with slurmdbd, which holds everybody to accounts, QOS and limits; and the settings that only it shows.

The site is small and of its own: the big one of the other tests has no accounts, and lets everybody pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from extender.domain.wellknown import BRIDGE_PREFIX, OWN_PREFIX, SUNK_PREFIX
from lab.build_slurm import RELEASES
from lab.site import PodRef, Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import KubeNode, Topology
from tests.builders.stage import Stage
from tests.e2e.conftest import CONFIG

NODES = (
    SlurmNode("node-1", cpus=64, features=("tested",)),
    SlurmNode("node-2", cpus=64, gpus=8, gpu_type="h100"),
)
TOPOLOGY = Topology(
    nodes=NODES,
    external_nodes=(),
    partitions=(Partition("batch", default=True),),
    kube_nodes=tuple(KubeNode(node.name, node) for node in NODES),
    slurm_config={
        "KillWait": "10",
        "MinJobAge": "7200",
        # A job's label of multi-category security is kept only where a plug-in serves it; that of this one is the user.
        "MCSPlugin": "mcs/user",
        "MCSParameters": "ondemand,ondemandselect",
    },
)
ACCOUNTS = (
    ("add", "qos", "high"),
    ("add", "account", "physics"),
    ("add", "account", "one-job", "MaxJobs=1"),
    ("add", "user", "root", "account=physics,one-job"),
    ("modify", "user", "root", "account=physics", "set", "qos+=high"),
)
_numbers = count(1)


@pytest.fixture(
    scope="module", params=[pytest.param(release, id=release, marks=pytest.mark.lab) for release in RELEASES]
)
def accounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose Slurm knows accounts."""
    workdir = tmp_path_factory.mktemp("accounted")
    with Site(request.param, topology=TOPOLOGY, config=CONFIG, accounting=True, workdir=workdir) as site:
        for words in ACCOUNTS:
            site.slurm.sacctmgr(*words)
        yield site


@pytest.fixture
def place(accounted: Site) -> Iterator[Stage]:
    """A clean place on it, whatever mode the extender chooses."""
    found = Stage(accounted, "auto", accounted.namespace(f"accounts-{next(_numbers)}"))
    yield found
    found.finish()


def refusals(place: Stage, ref: PodRef) -> int:
    """How many requests for a job of this Pod Slurm has refused."""
    lines = [str(entry.get("line", "")) for entry in place.site.extender_log() if entry.get("uid") == ref.uid]
    return sum("SubmitRefused(" in line for line in lines)


def test_account_and_qos_of_every_prefix_are_those_of_the_job(place: Stage) -> None:
    site = place.site
    pods = [
        site.pod(f"pod-{number}", place.namespace, annotations={prefix + "account": "physics", prefix + "qos": "high"})
        for number, prefix in enumerate((OWN_PREFIX, SUNK_PREFIX, BRIDGE_PREFIX))
    ]
    plain = site.pod("plain", place.namespace)
    for pod in pods:
        site.bound(pod)
        shown = site.scontrol_show_job(place.job(pod).job_id)
        assert (shown["Account"], shown["QOS"]) == ("physics", "high")
    site.bound(plain)
    shown = site.scontrol_show_job(place.job(plain).job_id)
    assert (shown["Account"], shown["QOS"]) == ("root", "normal")


UNKNOWN = {"account": ("2045", "Invalid account"), "qos": ("2066", "Invalid qos")}
"""What is unknown, and Slurm's number and words for it."""


def test_an_unknown_account_or_qos_is_told_in_slurms_words_and_not_asked_for_again(place: Stage) -> None:
    site = place.site
    pods = {wrong: place.pod(wrong, annotations={OWN_PREFIX + wrong: "nobody-knows"}) for wrong in UNKNOWN}
    for wrong, (number, words) in UNKNOWN.items():
        text = site.event(pods[wrong], "SlurmJobRejected")
        assert number in text
        assert words in text
    before = {wrong: refusals(place, pod) for wrong, pod in pods.items()}
    assert set(before.values()) <= {1, 2}, "one for the job in the queue, and one where an allocation was tried first"
    site.elapse(4)  # what is tried again is so after one second, and after two more
    assert {wrong: refusals(place, pod) for wrong, pod in pods.items()} == before
    for wrong, pod in pods.items():
        assert [reason for reason, _ in site.events(pod)].count("SlurmJobRejected") == 1
        assert place.made(pod) == []
        site.annotate(pod, {OWN_PREFIX + wrong: None})
    for pod in pods.values():
        assert site.bound(pod)


def test_a_pod_above_a_limit_of_its_account_waits_with_the_reason_until_there_is_room(place: Stage) -> None:
    site = place.site
    said = {OWN_PREFIX + "account": "one-job"}
    first = place.pod("first", annotations=said)
    site.bound(first)
    second = place.pod("second", annotations=said)
    site.wait_for(
        lambda: [
            text for reason, text in site.events(second) if reason == "SlurmJobPending" and "AssocMaxJobsLimit" in text
        ],
        "its reason is told",
    )
    waiting = place.job(second)
    assert waiting.state == "PENDING"
    assert site.node_of(second) == ""
    site.delete(first)
    site.bound(second)
    assert place.job(second).job_id == waiting.job_id


def test_settings_that_other_sites_do_not_show(place: Stage) -> None:
    site = place.site
    wanted = {
        "label": ({OWN_PREFIX + "mcs-label": "root"}, {}, ("MCS_label", "root")),
        "gres": ({OWN_PREFIX + "gres": "gpu:h100:2"}, {}, ("TresPerNode", "gres/gpu:h100:2")),
        "type": ({OWN_PREFIX + "gpu-type": "h100"}, {"gpus": 3}, ("TresPerNode", "gres/gpu:h100:3")),
        "reserved": ({BRIDGE_PREFIX + "reservation": "theirs"}, {}, ("Reservation", "theirs")),
    }
    words = ("ReservationName=theirs", "Nodes=node-1", "Users=root", "StartTime=now", "Duration=60")
    site.slurm.run("scontrol", "create", "reservation", *words)
    try:
        pods = {
            name: site.pod(name, place.namespace, annotations=said, **options)
            for name, (said, options, _) in wanted.items()
        }
        for name, (_, _, (key, value)) in wanted.items():
            site.bound(pods[name])
            assert site.scontrol_show_job(place.job(pods[name]).job_id)[key] == value
    finally:
        place.finish()
        site.slurm.run("scontrol", "delete", "ReservationName=theirs")


def test_sacct_tells_which_pod_a_job_was_for_when_both_are_gone(place: Stage) -> None:
    site, named = place.site, f"{place.namespace}/past"
    past = place.pod("past")
    site.bound(past)
    job = place.job(past)
    site.delete(past)
    place.job_over(past)
    words = ("sacct", "-X", "-n", "-P", "-j", str(job.job_id), "-o", "JobName,AdminComment")
    told = site.wait_for(
        lambda: line if "CANCELLED" in (line := site.slurm.run(*words[:-1], f"{words[-1]},State")) else None,
        "slurmdbd knows the end",
    )
    name, mark, _ = told.strip().split("|")
    assert name.startswith(f"{named}-")
    assert f'"p":"{named}"' in mark
