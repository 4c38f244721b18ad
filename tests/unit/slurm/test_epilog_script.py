"""The Epilog, run by a real bash against a hook server on loopback, with a scontrol that notes what it is told."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from extender.cli import main
from extender.domain.identity import encode_mark
from extender.domain.job import Mark
from tests.builders.hook_server import TOKEN, hooks

MARK = encode_mark(Mark("cluster", "slurm", "unit", 1))
NOBODY = "http://127.0.0.1:9"
SCONTROL = """#!/bin/bash
echo "$*" >>{told}
[[ $1 == --oneliner ]] && echo "NodeName=node-1 State={state} Reason=said" && exit 0
exit {code}
"""


@dataclass
class Run:
    """What came of one run."""

    code: int
    scontrol: list[str]


Start = Callable[..., Awaitable[Run]]


@pytest.fixture
def epilog(tmp_path: Path) -> Start:
    """Runs the Epilog as slurmd does: no PATH but what it sets itself, and slurmd's variables."""
    told, key, folder = tmp_path / "told", tmp_path / "the key", tmp_path / "bin"
    key.write_text(f"{TOKEN}\n")
    folder.mkdir()

    async def run(
        url: str, *, extra: str = MARK, node: str = "node-1", state: str = "IDLE", code: int = 0, hold: int = 4
    ) -> Run:
        printed = CliRunner().invoke(main, ["epilog", "--hooks", url, "--key-file", str(key), "--hold", str(hold)])
        assert printed.exit_code == 0, printed.output
        script, scontrol = tmp_path / "epilog.sh", folder / "scontrol"
        script.write_text(printed.output)
        scontrol.write_text(SCONTROL.format(told=told, state=state, code=code))
        scontrol.chmod(stat.S_IRWXU)
        environment = {"SLURM_JOB_ID": "17", "SLURM_JOB_EXTRA": extra, "PATH": f"{folder}:/usr/bin:/bin"}
        if node:
            environment["SLURMD_NODENAME"] = node
        process = await asyncio.create_subprocess_exec("/bin/bash", str(script), env=environment)
        return Run(await process.wait(), told.read_text().splitlines() if told.exists() else [])

    return run


@pytest.mark.parametrize("extra", ["", "somebody's own words", '{"slurm-extender-like":1,"c":"x"}'])
async def test_a_job_that_is_no_placeholder_asks_nobody(epilog: Start, extra: str) -> None:
    async with hooks() as server:
        assert await epilog(server.url, extra=extra) == Run(0, [])
        assert server.requests.empty()


async def test_it_ends_when_the_pod_is_gone(epilog: Start) -> None:
    async with hooks(teardown=[202, 503, 202, 200]) as server:
        assert await epilog(server.url, hold=10) == Run(0, [])
        targets = [server.requests.get_nowait()[0] for _ in range(4)]
        assert all(target.startswith("/hooks/jobs/17/teardown?wait=") for target in targets)


async def test_a_job_of_which_the_extender_knows_nothing_is_let_go(epilog: Start) -> None:
    async with hooks(teardown=[404]) as server:
        assert await epilog(server.url) == Run(0, [])


@pytest.mark.parametrize("answer", [200, 202])
async def test_a_pod_that_stays_is_handed_over_to_a_drain_by_the_extender(epilog: Start, answer: int) -> None:
    async with hooks(teardown=[202], drain=[answer]) as server:
        assert await epilog(server.url) == Run(0, [])
        targets = [server.requests.get_nowait() for _ in range(server.requests.qsize())]
        assert targets[-1] == ("/hooks/nodes/node-1/drain", f"bearer {TOKEN}")


@pytest.mark.parametrize("drain", [503, 403])
async def test_where_the_extender_does_not_drain_the_epilog_does_in_its_name(epilog: Start, drain: int) -> None:
    async with hooks(teardown=[503], drain=[drain]) as server:
        run = await epilog(server.url)
    assert run.code == 0
    assert run.scontrol[0] == "--oneliner show node node-1"
    assert run.scontrol[1].startswith("update nodename=node-1 state=drain reason=slurm-extender: job 17 ended")


async def test_where_nobody_listens_the_epilog_drains_too(epilog: Start) -> None:
    assert len((await epilog(NOBODY)).scontrol) == 2


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN+DRAIN+NOT_RESPONDING", "DRAINING"])
async def test_a_drain_that_is_there_keeps_its_reason(epilog: Start, state: str) -> None:
    assert await epilog(NOBODY, state=state) == Run(0, ["--oneliner show node node-1"])


async def test_an_epilog_that_can_fence_the_node_in_no_way_fails(epilog: Start) -> None:
    assert (await epilog(NOBODY, code=1)).code != 0


async def test_on_the_controller_it_tells_and_holds_nothing(epilog: Start) -> None:
    async with hooks(teardown=[202]) as server:
        assert await epilog(server.url, node="") == Run(0, [])
        assert server.requests.get_nowait()[0] == "/hooks/jobs/17/teardown?wait=0"
        assert server.requests.empty()
    assert await epilog(NOBODY, node="") == Run(0, [])
