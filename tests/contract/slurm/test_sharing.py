"""What each word of `exclusive` makes of the real job, and whom Slurm then lets share the node with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from extender.domain.job_outcomes.slurm_states import Running
from extender.domain.jobs.job import Exclusive, JobOrder, Mode, RunAs
from extender.domain.translation import annotation_table as table
from extender.domain.translation.forms import Unsent
from lab.slurm import Partition, Slurm, SlurmNode
from slurmclient import Job, JobDescription, JobState, Shared, SlurmClient, SlurmError, StaticToken
from tests.builders.job_descriptions import one_cpu
from tests.builders.job_orders import an_order
from tests.builders.slurm_sites import NODES, LabSite, until
from tests.builders.submitted_jobs import accepted, jobs_of, observed
from tests.contract.slurm.conftest import OpenSite

ALICE = RunAs(2001, 2001)
NODES_BUSY = 2016
NEIGHBOUR = one_cpu("neighbour", excluded_nodes=NODES[1:], partition="batch")

# The word, what 24.11 and 26.05 show of the job's sharing, its CPUs on a node of 8, and who gets in beside it: somebody
# of the same user, and of another one.
WORDS: dict[str, tuple[str, str, int, bool, bool]] = {
    "": ("OverSubscribe=OK", "OverSubscribe=NO Exclusive=NO", 2, True, True),
    "none": ("OverSubscribe=NO", "OverSubscribe=NO Exclusive=NODE", 8, False, False),
    "true": ("OverSubscribe=NO", "OverSubscribe=NO Exclusive=NODE", 8, False, False),
    "false": ("OverSubscribe=OK", "OverSubscribe=NO Exclusive=NO", 2, True, True),
    "ok": ("OverSubscribe=YES", "OverSubscribe=YES Exclusive=NO", 2, True, True),
    "user": ("OverSubscribe=USER", "OverSubscribe=NO Exclusive=USER", 2, True, False),
    # These two mean nothing to a Slurm without labels and without blocks of nodes.
    "mcs": ("OverSubscribe=MCS", "OverSubscribe=NO Exclusive=MCS", 2, True, True),
    "topo": ("OverSubscribe=TOPO", "OverSubscribe=NO Exclusive=TOPO", 2, True, True),
}
SENT = {"none": Shared.NONE, "true": Shared.NONE, "ok": Shared.OVERSUBSCRIBE} | {
    word: Shared(word) for word in ("user", "mcs", "topo")
}


def has_ended(job: Job) -> bool:
    """It is not even completing."""
    return job.state is JobState.CANCELLED and not job.flags


async def gets_in(slurm: SlurmClient, as_user: str | None = None, description: JobDescription = NEIGHBOUR) -> bool:
    """Whether a job of that user gets a CPU of the node at once."""
    try:
        made = await slurm.allocate(description, as_user=as_user)
    except SlurmError as error:
        if error.slurm_errno != NODES_BUSY:
            raise
        return False
    await slurm.cancel(made.job_id)
    await until(lambda: slurm.job(made.job_id), has_ended, "the neighbour's end")
    return True


def holder(
    exclusive: Exclusive | None, excluded: tuple[str, ...], label: str = "", mode: Mode = Mode.BATCH
) -> JobOrder:
    """Two CPUs for alice; an allocation is the caller's own."""
    at_once = mode is Mode.ALLOCATION
    return an_order(
        f"holder-{exclusive}",
        mode=mode,
        immediate=at_once,
        run_as=None if at_once else ALICE,
        exclusive=exclusive,
        mcs_label=label,
        excluded=excluded,
        partition="batch",
        cpus=2,
    )


def shown(slurm: Slurm, job_id: int) -> str:
    """What scontrol says of a job's sharing."""
    text = slurm.run("scontrol", "show", "job", str(job_id))
    return " ".join(re.findall(r"(?:OverSubscribe|Exclusive)=\S+", text))


@pytest.mark.parametrize("mode", [Mode.BATCH, Mode.ALLOCATION, Mode.EXTERNAL])
@pytest.mark.parametrize("word", WORDS)
async def test_each_word_of_exclusive_lets_those_share_the_node_whom_it_names(
    open_site: OpenSite, word: str, mode: Mode
) -> None:
    before, since, cpus, same_user, other_user = WORDS[word]
    exclusive = table.EXCLUSIVE.form.read(word) if word else None
    async with open_site() as site, site.client() as slurm:
        if mode is Mode.EXTERNAL and site.release < (26, 5):
            pytest.skip("this Slurm has no external jobs")
        jobs = jobs_of(slurm)
        order = holder(None if isinstance(exclusive, Unsent) else exclusive, NODES[1:], mode=mode)
        job_id = await accepted(jobs, order)
        await observed(jobs, job_id, Running)
        job = await slurm.job(job_id)
        if isinstance(site, LabSite):
            assert shown(site.slurm, job_id) == (since if site.release >= (26, 5) else before)
            assert job.cpus == cpus
        if site.release < (26, 5):  # v0.0.45 does not say it any more
            assert job.shared == SENT.get(word)
        itself, others = (None, "alice") if mode is Mode.ALLOCATION else ("alice", None)
        assert await gets_in(slurm, itself) is same_user
        assert await gets_in(slurm, others) is other_user


LABELLED = {
    "MCSPlugin": "mcs/label",
    "MCSParameters": "ondemand,ondemandselect",
    "TopologyPlugin": "topology/block",
}
BLOCKS = "BlockName=b1 Nodes=node-[1-2]\nBlockName=b2 Nodes=node-[3-4]\nBlockSizes=1,2\n"
FOUR = tuple(f"node-{number}" for number in range(1, 5))


@pytest.fixture(
    scope="module", params=[pytest.param(name, id=f"lab-{name}", marks=pytest.mark.lab) for name in ("24.11", "26.05")]
)
def labelled(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """A Slurm with labels and with blocks of nodes, for the words that mean nothing without."""
    with Slurm(
        release=request.param,
        nodes=[SlurmNode(name, cpus=8, memory_mb=16_000) for name in FOUR],
        partitions=[Partition("batch", default=True)],
        config=LABELLED,
        files={"topology.conf": BLOCKS},
    ) as slurm:
        yield slurm


def but(name: str) -> tuple[str, ...]:
    return tuple(one for one in FOUR if one != name)


async def test_mcs_shares_the_node_with_jobs_of_the_same_label_alone(labelled: Slurm) -> None:
    async with SlurmClient([labelled.rest_url], StaticToken(labelled.token("root"))) as slurm:
        jobs = jobs_of(slurm)
        job_id = await accepted(jobs, holder(Exclusive.MCS, but("node-1"), "red"))
        await observed(jobs, job_id, Running)
        assert "MCS_label=red" in labelled.run("scontrol", "show", "job", str(job_id))
        beside = replace(NEIGHBOUR, excluded_nodes=but("node-1"), shared=Shared.MCS)
        got = {label: await gets_in(slurm, None, replace(beside, mcs_label=label)) for label in ("red", "blue")}
        plain = await gets_in(slurm, None, replace(beside, mcs_label=None, shared=None))
        await slurm.cancel(job_id)
        await until(lambda: slurm.job(job_id), has_ended, "its end")
        assert (got, plain) == ({"red": True, "blue": False}, False)


async def test_topo_keeps_its_whole_block_of_nodes_to_itself(labelled: Slurm) -> None:
    async with SlurmClient([labelled.rest_url], StaticToken(labelled.token("root"))) as slurm:
        jobs = jobs_of(slurm)
        job_id = await accepted(jobs, holder(Exclusive.TOPO, but("node-1")))
        await observed(jobs, job_id, Running)
        got = {name: await gets_in(slurm, "alice", replace(NEIGHBOUR, excluded_nodes=but(name))) for name in FOUR}
        await slurm.cancel(job_id)
        await until(lambda: slurm.job(job_id), has_ended, "its end")
        assert got == {"node-1": False, "node-2": False, "node-3": True, "node-4": True}
