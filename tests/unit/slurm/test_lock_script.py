"""The lock script in a real bash, against hooks on loopback."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from extender.domain.jobs.identity import encode_mark
from extender.domain.jobs.job import Mark
from tests.builders.hook_server import TOKEN, HookServer, hooks
from tests.builders.node_script import run_node_script

MARK = encode_mark(Mark("cluster", "slurm", "workload", 1))
NOBODY = "http://127.0.0.1:9"
SCONTROL = """#!/bin/bash
[[ $* == "show hostnames node-[1-2]" ]] && printf 'node-1\\nnode-2\\n'
"""
SQUEUE = """#!/bin/bash
printf '%-12s%-24s%-12s%-1025s\\n' 17 CONFIGURING 0 {mark}
"""
NO_ANSWER = """#!/bin/bash
exit 1
"""


async def run(
    folder: Path,
    url: str,
    context: str,
    *,
    nodes: str = "node-1",
    extra: str = "",
    squeue: str = NO_ANSWER,
    hold: int = 30,
) -> int:
    (folder / "key").write_text(f"{TOKEN}\n")
    options = {"--hooks": url, "--key-file": folder / "key", "--hold": hold}
    commands = {"scontrol": SCONTROL, "squeue": squeue}
    return await run_node_script(folder, "lock-script", options, commands, context, nodes=nodes, extra=extra)


def requests_of(server: HookServer) -> list[str]:
    found = [server.requests.get_nowait() for _ in range(server.requests.qsize())]
    assert all(authorization == f"bearer {TOKEN}" for _, authorization in found)
    return [target.removeprefix("/hooks/nodes/") for target, _ in found]


@pytest.mark.parametrize(
    ("context", "word"), [("prolog_slurmd", "lock"), ("epilog_slurmd", "unlock"), ("prolog_slurmctld", "lock")]
)
async def test_it_calls_for_the_node_of_the_job(tmp_path: Path, context: str, word: str) -> None:
    async with hooks() as server:
        assert await run(tmp_path, server.url, context) == 0
        assert requests_of(server) == [f"node-1/{word}?job=17"]


async def test_on_slurmctld_s_machine_it_calls_for_every_node(tmp_path: Path) -> None:
    async with hooks() as server:
        assert await run(tmp_path, server.url, "epilog_slurmctld", nodes="node-[1-2]") == 0
        assert requests_of(server) == ["node-1/unlock?job=17", "node-2/unlock?job=17"]


async def test_it_calls_again_until_it_is_answered(tmp_path: Path) -> None:
    async with hooks(lock=[503, 200]) as server:
        assert await run(tmp_path, server.url, "prolog_slurmd") == 0
        assert len(requests_of(server)) == 2


@pytest.mark.parametrize("context", ["prolog_slurmd", "prolog_task"])
async def test_a_placeholder_and_other_contexts_call_no_hook(tmp_path: Path, context: str) -> None:
    async with hooks() as server:
        extra = MARK if context == "prolog_slurmd" else ""
        squeue = SQUEUE.format(mark=shlex.quote(MARK))
        assert await run(tmp_path, server.url, context, extra=extra, squeue=squeue) == 0
        assert requests_of(server) == []


@pytest.mark.parametrize("squeue", [SQUEUE.format(mark="'(null)'"), NO_ANSWER], ids=["forged", "not proven"])
@pytest.mark.parametrize(("context", "word"), [("prolog_slurmd", "lock"), ("epilog_slurmd", "unlock")])
async def test_a_mark_that_only_the_owner_of_the_job_wrote_spares_no_node_the_lock(
    tmp_path: Path, context: str, word: str, squeue: str
) -> None:
    async with hooks() as server:
        assert await run(tmp_path, server.url, context, extra=MARK, squeue=squeue) == 0
        assert requests_of(server) == [f"node-1/{word}?job=17"]


async def test_a_job_starts_although_no_hook_answers_or_the_key_is_wrong(tmp_path: Path) -> None:
    assert await run(tmp_path, NOBODY, "prolog_slurmd", hold=1) == 0
    async with hooks(lock=[403]) as server:
        assert await run(tmp_path, server.url, "prolog_slurmd") == 0
        assert len(requests_of(server)) == 1
