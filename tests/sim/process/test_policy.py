"""The policy file while the process runs: read again, never half believed, and no reason to end what runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from simulator.kube.objects import Json
from simulator.kube.resources import NAMESPACES
from simulator.kube.storage import ObjectKey
from simulator.slurm.records import SimJob
from tests.builders.config_map import MountedConfigMap
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime
OURS = "slurm-extender.io/"
HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: PodPolicy\n"
KNOWN = "user: root, users: [{name: alice, uid: 2001, gid: 3001}, {name: bob, uid: 2002, gid: 3002}]"


class Policy:
    """The policy file of the site."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def says(self, text: str) -> None:
        self.file.write_text(HEAD + text)

    @property
    def given(self) -> str:
        """A part of the configuration."""
        return f"jobs: {{policyFile: {self.file}}}\n"


@pytest.fixture
def policy(tmp_path: Path, site: Site) -> Policy:
    site.config = CONFIG.replace("user: root", KNOWN)
    found = Policy(tmp_path / "policy.yaml")
    found.says("rules: []\n")
    return found


def waiting(site: Site, name: str) -> SimJob:
    (job,) = [job for job in site.jobs_of(name) if job.state == "PENDING"]
    return job


async def one_that_waits(site: Site, **settings: str) -> SimJob:
    """`second`, whose job queues behind Pods on every node."""
    await site.fill()
    site.kube.add_pod(
        "second", cpu="8", annotations={OURS + name.replace("_", "-"): value for name, value in settings.items()}
    )
    await site.until(lambda: bool(site.jobs_of("second")), "its job")
    return waiting(site, "second")


def label(site: Site, namespace: str, **labels: str) -> None:
    def edit(one: Json) -> None:
        one["metadata"].setdefault("labels", {}).update(labels)

    site.kube.change(ObjectKey(NAMESPACES, "", namespace), edit)


async def test_a_refused_pod_gets_the_rule_and_gets_its_job_when_that_changes(site: Site, policy: Policy) -> None:
    policy.says("rules: [{name: interns, allow: {partition: [urgent]}}]\n")
    async with site.running(changed=policy.given):
        site.kube.add_pod("web", annotations={OURS + "partition": "batch"})
        await site.until(lambda: "InvalidSlurmSettings" in site.events("web"), "its refusal")
        assert any('"batch" is not allowed by rule "interns"' in note for note in site.notes("web"))
        assert any("it allows urgent" in note for note in site.notes("web"))
        await asyncio.sleep(10)
        assert not site.jobs()
        policy.says("rules: [{name: interns, allow: {partition: [urgent, batch]}}]\n")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")


async def test_the_job_of_a_waiting_pod_follows_a_changed_policy_in_place(site: Site, policy: Policy) -> None:
    async with site.running(changed=policy.given):
        job = await one_that_waits(site)
        policy.says("rules: [{name: all, defaults: {qos: low, account: lab}, allow: {timeLimit: {atMost: 9}}}]\n")
        await site.until(lambda: job.qos == "low", "the change")
        assert (job.account, job.time_limit_s, job.state) == ("lab", 540.0, "PENDING")
        assert site.jobs_of("second") == [job]


async def test_what_waits_and_is_not_allowed_any_more_loses_its_job_and_says_why(site: Site, policy: Policy) -> None:
    async with site.running(changed=policy.given):
        job = await one_that_waits(site, time_limit="99")
        running = [one for one in site.live_jobs() if one is not job]
        policy.says("rules: [{name: short, allow: {timeLimit: {atMost: 60}}}]\n")
        await site.until(lambda: not site.jobs_of("second"), "the end of its job")
        told = '"99" is not allowed by rule "short"'
        await site.until(lambda: any(told in note for note in site.notes("second")), "a word about it")
        assert site.live_jobs() == running
        policy.says("rules: []\n")
        await site.until(lambda: bool(site.jobs_of("second")), "another job")


STRICTER = [
    "rules: [{name: none, allow: {partition: [], account: [], qos: [], userId: [], mode: [], exclusive: []}}]\n",
    "rules: [{name: short, defaults: {timeLimit: 1, account: lab, userId: bob}}]\n",
    "rules: [{name: short, defaults: {timeLimit: 1}, allow: {userId: [alice]}}]\n",
    "rules: [{name: short, allow: {timeLimit: {atMost: 1}, userId: [alice]}}]\n",
    "owners: [{user: bob, account: lab}]\n",
]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("stricter", STRICTER)
async def test_nothing_that_runs_is_ended_or_shortened_by_a_policy(site: Site, policy: Policy, stricter: str) -> None:
    policy.says("rules: [{name: free, defaults: {timeLimit: 900}, allow: {userId: [alice]}}]\n")

    def unharmed(job: SimJob) -> None:
        assert site.node_of("web")
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert site.live_jobs() == [job]
        assert (job.time_limit_s, job.user_id, job.account) == (54_000.0, 2001, "")

    async with site.running(changed=policy.given):
        site.kube.add_pod("web", annotations={OURS + "user-id": "alice", OURS + "comment": "a"})
        await site.bound("web")
        (job,) = site.jobs_of("web")
        policy.says(stricter)
        await asyncio.sleep(30)
        unharmed(job)
    async with site.running(changed=policy.given):
        await asyncio.sleep(30)
        unharmed(job)
        site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({OURS + "comment": "b"}))
        await asyncio.sleep(20)
        unharmed(job)


async def test_a_broken_policy_keeps_the_last_good_one_and_says_so(site: Site, policy: Policy) -> None:
    policy.says("rules: [{name: all, defaults: {qos: low}}]\n")
    async with site.running(changed=policy.given):
        assert await usable(site) == 1.0
        for broken in ("rules: [{name: all, defaults: {qos: 'a b'}}]\n", "rules: {\n", "owners: [{user: carol}]\n"):
            policy.says(broken)
            await site.until(lambda: bool(site.extender.policy_file.trouble), "a word about it")
            await asyncio.sleep(5)
            assert await usable(site) == 0.0
            policy.says("rules: [{name: all, defaults: {qos: low}}]\n")
            await asyncio.sleep(5)
            assert await usable(site) == 1.0
        policy.file.unlink()
        await asyncio.sleep(10)
        assert await usable(site) == 0.0
        checks = (await site.get(8083, "/debug/checks")).json()
        (said,) = [one for one in checks if one["name"] == "policy"]
        assert not said["ok"]
        assert not said["required"]
        assert "the last valid one stays in force" in said["text"]
        assert str(policy.file) in said["text"]
        site.kube.add_pod("web")
        await site.bound("web")
        assert [job.qos for job in site.jobs_of("web")] == ["low"]


@pytest.mark.parametrize("written", ["", HEAD, HEAD + "rules: []\n", HEAD + "rules: [{name: all}]\nowners: [{us"])
async def test_half_a_policy_is_neither_loaded_nor_complained_of(site: Site, policy: Policy, written: str) -> None:
    strict, stricter = ("rules: [{name: all, allow: {timeLimit: {atMost: 60}}}]\n" + f"# {n}\n" for n in "12")
    policy.says(strict)
    async with site.running(changed=policy.given):
        before = site.extender.policy_file.policy
        for _ in range(3):
            await asyncio.sleep(4)
            policy.file.write_text(written)
            site.extender.policy_file.check()  # in the middle of writing
            assert site.extender.policy_file.policy == before
            policy.says(stricter)
            await asyncio.sleep(4)
            policy.says(strict)
        assert site.extender.policy_file.policy == before
        assert site.extender.policy_file.loads["bad"] == 0
        policy.file.write_text(written)
        found = site.extender.policy_file
        await site.until(lambda: found.policy != before or bool(found.trouble), "it is believed", within=5)


async def usable(site: Site) -> float:
    lines = (await site.get(8082, "/metrics")).text.splitlines()
    return next(float(one.split()[-1]) for one in lines if one.startswith("slurm_extender_policy_usable "))


async def test_a_start_with_a_broken_policy_requests_nothing_and_ends_nothing(site: Site, policy: Policy) -> None:
    async with site.running(changed=policy.given):
        job = await one_that_waits(site)
        running = site.live_jobs()
    policy.says("rules: [{name: 5}]\n")
    async with site.running(changed=policy.given):
        site.kube.add_pod("third")
        await site.until(lambda: "SlurmPolicyUnusable" in site.events("third"), "a word about it")
        await asyncio.sleep(70)  # longer than any look for a job lasts
        assert site.live_jobs() == running
        site.kube.delete_pod("first-0", grace_s=1)  # what is over is over all the same
        await site.until(lambda: len(site.jobs_of("first-0")) == 0, "the end of its job")
        policy.says("rules: []\n")
        await site.bound("second")
        assert site.jobs_of("second") == [job]
        site.kube.delete_pod("first-1", grace_s=1)
        await site.bound("third")


async def test_rules_follow_the_labels_of_namespaces(site: Site, policy: Policy) -> None:
    selector = "namespaceSelector: {matchLabels: {kind: lab}}"
    policy.says(f"rules: [{{name: labs, match: {{{selector}}}, defaults: {{qos: lab}}}}]\n")
    async with site.running(changed=policy.given):
        job = await one_that_waits(site)
        assert job.qos == ""
        label(site, "default", kind="lab")
        await site.until(lambda: job.qos == "lab", "the change")


async def test_jobs_run_as_the_owners_of_their_service_accounts(site: Site, policy: Policy) -> None:
    policy.says("owners: [{match: {serviceAccounts: [bot]}, user: bob, account: lab}, {user: alice}]\n")
    async with site.running(changed=policy.given):
        site.kube.add_pod("web")
        await site.bound("web")
        (job,) = site.jobs_of("web")
        assert (job.user_id, job.group_id, job.account) == (2001, 3001, "")


async def test_a_policy_that_breaks_while_it_runs_is_reported_on_the_extenders_own_pod(
    site: Site, policy: Policy
) -> None:
    site.kube.add_pod("localhost", "kube-system", scheduler="default-scheduler", node="n1", cpu="0", memory="0")
    async with site.running(changed=policy.given):
        policy.says("rules: {\n")
        await site.until(lambda: "SlurmPolicyInvalid" in site.events("localhost"), "a word about it")
        (note,) = site.notes("localhost")
        assert str(policy.file) in note
        assert "The last valid one stays in force" in note
        policy.says("rules: []\n")
        await site.until(lambda: "SlurmPolicyRestored" in site.events("localhost"), "a word about that")


async def test_a_config_map_that_kubelet_swaps_is_followed_at_every_swap(site: Site, tmp_path: Path) -> None:
    volume = MountedConfigMap(tmp_path / "mounted", "policy.yaml")
    volume.holds(HEAD + "rules: [{name: all, defaults: {qos: low}}]\n")
    with capture_logs() as logs:
        async with site.running(changed=f"jobs: {{policyFile: {volume.file}}}\n"):
            job = await one_that_waits(site)
            assert job.qos == "low"
            for qos in ("high", "low", "high"):
                volume.holds(HEAD + f"rules: [{{name: all, defaults: {{qos: {qos}}}}}]\n")
                await site.until(lambda qos=qos: job.qos == qos, "the change", within=10)  # type: ignore[misc]
            assert await usable(site) == 1.0
            volume.loses_its_key()
            await asyncio.sleep(10)
            assert (await usable(site), job.qos) == (0.0, "high")
            volume.holds(HEAD + "rules: [{name: all, defaults: {qos: low}}]\n")
            await site.until(lambda: job.qos == "low", "the change", within=10)
            assert await usable(site) == 1.0
            assert site.jobs_of("second") == [job]
    assert [line["event"] for line in logs].count("policy_in_force") == 5
    assert [line["event"] for line in logs].count("policy_unusable") == 1
