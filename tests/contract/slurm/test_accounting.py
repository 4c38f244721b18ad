"""What accounts, QOS and their limits do to requests: on real Slurms with a slurmdbd that holds everybody to them.

The simulated Slurm is one without slurmdbd, where any account is taken. It differs from that on purpose in one thing:
it keeps the QOS of a job, which a real slurmctld without slurmdbd drops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from extender.domain.events import SubmitAccepted, SubmitRefused
from extender.domain.job_outcomes.slurm_states import Running, Waiting, observe
from extender.domain.jobs.job import JobOrder
from extender.slurm.jobs import SlurmrestdJobs
from lab.build_slurm import RELEASES
from lab.clock import wait_until
from lab.slurm import Slurm, SlurmNode
from slurmclient import (
    INFINITE,
    CapacityError,
    JobState,
    RefusedError,
    SlurmClient,
    SlurmError,
    StaticToken,
    UnsupportedError,
)
from tests.builders.job_descriptions import one_cpu
from tests.builders.job_orders import an_allocation, an_order
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import LabSite, until
from tests.contract.slurm.conftest import OpenSite

SOME_CPUS = one_cpu("accounting")
QUEUED = replace(
    SOME_CPUS,
    script="#!/bin/sh\nsleep 600\n",
    environment=("PATH=/usr/bin:/bin",),
    standard_output="/dev/null",
    standard_error="/dev/null",
)

ACCOUNTS = (
    ("add", "qos", "high", "Priority=10"),
    ("add", "qos", "strict", "Flags=DenyOnLimit", "MaxTRESPerJob=cpu=2"),
    ("add", "account", "physics"),
    ("add", "account", "one-job", "MaxJobs=1"),
    ("add", "account", "two-cpus", "GrpTRES=cpu=2"),
    ("add", "account", "one-in-queue", "MaxSubmitJobs=1"),
    ("add", "user", "root", "account=physics,one-job,two-cpus,one-in-queue"),
    ("add", "user", "alice", "account=physics", "fairshare=3"),
    ("modify", "user", "root", "account=physics", "set", "qos+=high,strict", "defaultqos=high"),
)


@pytest.fixture(
    scope="module", params=[pytest.param(release, id=f"lab-{release}", marks=pytest.mark.lab) for release in RELEASES]
)
def accounting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm that holds everybody to associations, QOS and limits."""
    workdir: Path = tmp_path_factory.mktemp("slurm")
    nodes = [SlurmNode("node-1", cpus=32, memory_mb=64_000)]
    with Slurm(release=request.param, nodes=nodes, accounting=True, workdir=workdir) as slurm:
        for words in ACCOUNTS:
            slurm.sacctmgr(*words)
        yield slurm


@pytest.fixture
def slurm(accounting: Slurm) -> Iterator[Slurm]:
    """The same, without jobs afterwards."""
    yield accounting
    left = accounting.run("squeue", "--noheader", "--format=%A").split()
    if left:
        accounting.run("scancel", *left)
    wait_until(lambda: not accounting.run("squeue", "--noheader").strip(), "no job is left", timeout_s=60)


def client(slurm: Slurm, user: str = "root") -> SlurmClient:
    return LabSite(slurm).client(user)


async def test_associations_are_read_with_their_qos_and_limits(slurm: Slurm) -> None:
    async with client(slurm) as caller:
        associations = await caller.associations()
    assert associations.unreadable == ()
    found = {(one.account, one.user): one for one in associations}
    root = found["physics", "root"]
    assert set(root.qos) == {"normal", "high", "strict"}
    assert (root.cluster, root.default_qos, root.is_default, root.shares) == ("lab", "high", False, 1)
    assert (root.max_jobs, root.max_submit_jobs) == (INFINITE, INFINITE)
    alice = found["physics", "alice"]
    assert (alice.is_default, alice.shares, alice.qos) == (True, 3, ("normal",))
    assert (found["physics", ""].parent_account, alice.parent_account) == ("root", "")
    assert found["one-job", "root"].max_jobs == 1
    assert found["one-in-queue", "root"].max_submit_jobs == 1
    # 24.11 does not tell the ids.
    ids = {one.id for one in associations}
    assert ids == {None} if slurm.release.name == "24.11" else len(ids - {None}) == len(associations)


async def test_shares_are_read_for_accounts_and_users(slurm: Slurm) -> None:
    async with client(slurm) as caller:
        shares = await caller.shares()
    assert shares.unreadable == ()
    found = {(one.parent, one.name): one for one in shares}
    assert not found["root", "physics"].is_user
    alice = found["physics", "alice"]
    assert (alice.is_user, alice.shares, alice.shares_normalized) == (True, 3, 0.75)


async def test_a_job_has_the_account_and_the_qos_that_it_requested_or_the_default_ones(slurm: Slurm) -> None:
    async with client(slurm) as caller:
        for create, description in ((caller.allocate, SOME_CPUS), (caller.submit, QUEUED)):
            said = await caller.job((await create(replace(description, account="physics", qos="normal"))).job_id)
            assert (said.account, said.qos) == ("physics", "normal")
            by_account = await caller.job((await create(replace(description, account="physics"))).job_id)
            assert (by_account.account, by_account.qos) == ("physics", "high")
            unsaid = await caller.job((await create(description)).job_id)
            assert (unsaid.account, unsaid.qos) == ("root", "normal")


async def test_a_waiting_job_follows_to_another_account_and_qos_that_are_allowed(slurm: Slurm) -> None:
    async with client(slurm) as caller:
        jobs = SlurmrestdJobs(caller, LoopClock())
        made = await caller.submit(replace(QUEUED, account="physics", hold=True))
        request = an_order(account="two-cpus", qos="high").request
        wanted = {"account", "qos"}
        await until(
            lambda: jobs.update(made.job_id, request, wanted, None), lambda answer: answer.done is True, "the change"
        )
        job = await caller.job(made.job_id)
        assert (job.account, job.qos) == ("two-cpus", "high")
        for wishes in ({"account": "nobody"}, {"qos": "nothing"}):
            request = replace(request, **wishes)  # type: ignore[arg-type]  # fields by name
            answer = await until(
                lambda request=request, wishes=wishes: jobs.update(made.job_id, request, set(wishes), None),  # type: ignore[misc]  # bound for each turn
                lambda answer: answer.done is not None,
                "an answer",
            )
            assert answer.done is False
        job = await caller.job(made.job_id)
        assert (job.account, job.qos) == ("two-cpus", "high")


async def test_the_association_is_that_of_the_user_whom_the_job_is_for(slurm: Slurm) -> None:
    async with client(slurm) as caller:
        made = await caller.allocate(SOME_CPUS, as_user="alice")
        assert (await caller.job(made.job_id)).account == "physics"
        for_alice = replace(QUEUED, user_id=2001, group_id=2001)
        assert (await caller.job((await caller.submit(for_alice)).job_id)).account == "physics"
        with pytest.raises(RefusedError) as raised:
            await caller.submit(replace(for_alice, account="one-job"))
        assert raised.value.slurm_errno == 2045
        with pytest.raises(RefusedError) as raised:
            await caller.submit(replace(QUEUED, user_id=2002, group_id=2002))
        assert raised.value.slurm_errno == 2045


NOT_FOR_ROOT = {
    "an account that does not exist": ({"account": "nobody"}, 2045),
    "a QOS that does not exist": ({"account": "physics", "qos": "nothing"}, 2066),
    "a QOS that the association may not use": ({"account": "one-job", "qos": "high"}, 2066),
}


@pytest.mark.parametrize("what", NOT_FOR_ROOT)
async def test_what_the_associations_do_not_allow_is_refused_for_good(slurm: Slurm, what: str) -> None:
    wishes, number = NOT_FOR_ROOT[what]
    async with client(slurm) as caller:
        jobs = jobs_of(caller)
        at_once, queued = await refused(jobs, an_allocation(**wishes)), await refused(jobs, an_order(**wishes))  # type: ignore[arg-type]  # fields of the request
    # The queue is asked as well before the answer counts as final, as with every refusal of an allocation.
    assert (at_once.permanent, at_once.queue, at_once.number) == (False, True, number)
    assert (queued.permanent, queued.queue, queued.number) == (True, False, number)
    assert str(number) in queued.text


@pytest.mark.parametrize(
    ("account", "cpus", "reason"), [("one-job", 1, "AssocMaxJobsLimit"), ("two-cpus", 2, "AssocGrpCpuLimit")]
)
async def test_a_job_above_a_limit_waits_with_its_reason_until_there_is_room(
    slurm: Slurm, account: str, cpus: int, reason: str
) -> None:
    async with client(slurm) as caller:
        jobs = jobs_of(caller)
        first = await accepted(jobs, an_allocation("first", account=account, cpus=cpus))
        at_once = await refused(jobs, an_allocation("second", account=account, cpus=cpus))
        assert (at_once.permanent, at_once.queue, at_once.number) == (False, True, 2050)
        second = await accepted(jobs, an_order("second", account=account, cpus=cpus))

        async def seen() -> object:
            job = await jobs.read(second)
            assert job is not None
            return observe(job)

        why = await until(seen, lambda one: isinstance(one, Waiting) and one.reason == reason, reason)
        assert isinstance(why, Waiting)
        assert (why.impossible, why.held) == (False, False)
        await jobs.cancel(first)
        await until(seen, lambda one: isinstance(one, Running), "it runs")


async def test_a_full_queue_of_an_association_is_no_final_answer(slurm: Slurm) -> None:
    async with client(slurm) as caller:
        held = replace(QUEUED, account="one-in-queue", priority=0)
        assert (await caller.job((await caller.submit(held)).job_id)).state is JobState.PENDING
        event = await refused(jobs_of(caller), an_order(account="one-in-queue"))
        assert (event.permanent, event.queue, event.number) == (False, False, 2050)


async def test_a_qos_that_denies_at_its_limit_is_no_final_answer_either(slurm: Slurm) -> None:
    # The number is that of a queue that is full for now, so the two cannot be told apart.
    async with client(slurm) as caller:
        for create, description in ((caller.allocate, SOME_CPUS), (caller.submit, QUEUED)):
            with pytest.raises(CapacityError) as raised:
                await create(replace(description, account="physics", qos="strict", cpus_per_task=3))
            assert raised.value.slurm_errno == 2050


async def test_without_slurmdbd_any_account_is_taken_and_no_server_can_be_queried(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as caller:
        made = await caller.allocate(replace(SOME_CPUS, account="nobody", qos="nothing"))
        job = await caller.job(made.job_id)
        assert (job.account, job.qos) == ("nobody", "" if isinstance(site, LabSite) else "nothing")
        for read in (caller.associations, caller.shares):
            with pytest.raises(UnsupportedError):
                await read()


async def test_a_slurmdbd_that_is_away_is_reported(slurm: Slurm) -> None:
    slurmdbd = slurm.daemon("slurmdbd")
    slurmdbd.kill()
    try:
        async with SlurmClient([slurm.rest_url], StaticToken(slurm.token())) as caller:
            with pytest.raises(SlurmError) as raised:
                await caller.associations()
            assert not isinstance(raised.value, RefusedError)
            # slurmctld knows the associations by itself.
            made = await caller.allocate(replace(SOME_CPUS, account="physics"))
            assert (await caller.job(made.job_id)).account == "physics"
    finally:
        slurmdbd.start()


def jobs_of(caller: SlurmClient) -> SlurmrestdJobs:
    return SlurmrestdJobs(caller, LoopClock())


async def accepted(jobs: SlurmrestdJobs, order: JobOrder) -> int:
    (event,) = await jobs.submit(order)
    assert isinstance(event, SubmitAccepted), event
    return event.job_id


async def refused(jobs: SlurmrestdJobs, order: JobOrder) -> SubmitRefused:
    (event,) = await jobs.submit(order)
    assert isinstance(event, SubmitRefused), event
    return event
