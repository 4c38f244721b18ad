"""Whatever stands in the variables that Slurm gives its scripts: no word of it is run, written elsewhere or sent on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from extender.cli import main
from extender.domain.wellknown import Hook
from extender.slurm.placeholder_script import SCRIPT
from extender.slurm.probe_script import probe_script
from tests.builders.hook_server import TOKEN, HookServer, hooks

MARK = '{"slurm-extender":1,"c":"x"}'
VALUES = {
    "a command": "$(touch {told})",
    "a command in back quotes": "`touch {told}`",
    "a command behind a semicolon": "17;touch {told}",
    "a command on a new line": "17\ntouch {told}\n",
    "a command in an index": "a[$(touch {told})]",
    "a redirection": "17>{told}",
    "an option": "--config={told}",
    "a path": "../../../../../../{told}",
    "a pattern": "*",
    "quotes": "'\"'\"`touch {told}`",
    "formats": "%s%n%d\\x41",
    "a request": "17/teardown HTTP/1.1\r\nX: y\r\n\r\nPOST /hooks/nodes/n/drain",
    "much": "9" * 100_000,
    "nothing": "",
    "bytes that are no UTF-8": "\udcff\udcfe",
}
VARIABLES = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURMD_NODENAME", "SLURM_JOB_NAME", "SLURM_JOB_USER", "SLURM_CONF")
CONTEXTS = ("prolog_slurmctld", "epilog_slurmctld", "epilog_slurmd", "prolog_slurmd")
SQUEUE = """#!/bin/bash
printf '%-12s%-24s%-12s%-1025s\\n' "17" COMPLETED 0 '{"slurm-extender":1,"c":"x"}'
"""
SCONTROL = """#!/bin/bash
[[ $* == "show config" ]] && printf 'PrologEpilogTimeout     = 15\\n'
exit 0
"""
ENDS_S = 60.0
"""A script of a node that hangs holds the node; this one hangs for its HOLD of 4 s at most."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("squeue", SQUEUE), ("scontrol", SCONTROL)):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o700)
    (tmp_path / "notes").mkdir()
    (tmp_path / "key").write_text(f"{TOKEN}\n")
    return tmp_path


def printed(command: str, url: str, folder: Path, *more: str) -> Path:
    said = CliRunner().invoke(
        main,
        ["generate", command, "--hooks", url, "--key-file", str(folder / "key"), "--hold", "4", *more],
        catch_exceptions=False,
    )
    assert said.exit_code == 0, said.output
    script = folder / f"{command}.sh"
    script.write_text(said.output)
    return script


async def run(script: Path, folder: Path, environment: dict[str, str]) -> asyncio.subprocess.Process:
    own = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder)}
    return await asyncio.create_subprocess_exec(
        "/bin/bash",
        str(script),
        cwd=folder,
        env={key.encode(): os.fsencode(value) for key, value in (own | environment).items()},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )


def files(folder: Path) -> set[str]:
    notes = folder / "notes"
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file() and one.parent != notes}


def targets(server: HookServer) -> Iterable[str]:
    while not server.requests.empty():
        yield server.requests.get_nowait()[0]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("command", ["fence-script", "lock-script"])
async def test_no_variable_makes_a_script_of_a_node_run_or_write_anything(
    folder: Path, command: str, context: str, value: str
) -> None:
    told = folder / "told"
    hostile = VALUES[value].replace("{told}", str(told))
    async with hooks(teardown=[200], drain=[200], clear=[200], lock=[200]) as server:
        more = ("--notes", str(folder / "notes")) if command == "fence-script" else ()
        script = printed(command, server.url, folder, *more)
        before = files(folder)
        for extra, given in ((MARK, VARIABLES), (MARK + hostile, VARIABLES[1:]), (MARK + hostile, VARIABLES[2:])):
            environment = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "n1", "SLURMD_NODENAME": "n1"}
            environment |= dict.fromkeys(given, hostile)
            process = await run(
                script, folder, environment | {"SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_EXTRA": extra}
            )
            async with asyncio.timeout(ENDS_S):
                await process.wait()
        assert files(folder) == before
        assert all(target.startswith("/hooks/") and " " not in target for target in targets(server))


@pytest.mark.parametrize("value", VALUES)
async def test_no_variable_makes_the_script_of_a_placeholder_run_or_write_anything(folder: Path, value: str) -> None:
    told = folder / "told"
    hostile = VALUES[value].replace("{told}", str(told))
    script = folder / "placeholder.sh"
    script.write_text(SCRIPT)
    before = files(folder)
    async with hooks(started=[200], teardown=[200]) as server:
        for url in (server.url, hostile):
            process = await run(
                script,
                folder,
                {Hook.URL: url, Hook.TOKEN: hostile, Hook.WAIT: hostile, "SLURM_JOB_ID": hostile},
            )
            try:
                await asyncio.sleep(0.2)
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(ENDS_S):
                    await process.wait()
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
        assert all(target.startswith("/hooks/") and " " not in target for target in targets(server))
    assert files(folder) == before


@pytest.mark.parametrize("value", VALUES)
async def test_no_variable_makes_the_script_of_the_probe_run_or_write_anything(folder: Path, value: str) -> None:
    hostile = VALUES[value].replace("{told}", str(folder / "told"))
    inner = dict.fromkeys(("hooks", "token", "status", "url", "limit", "quoted"), hostile)
    async with hooks(started=[202]) as server:
        script = folder / "probe.sh"
        script.write_text(probe_script(server.url))
        before = files(folder)
        for variables in (VARIABLES, VARIABLES[1:]):
            given = {"SLURM_JOB_ID": "17"} | dict.fromkeys([*variables, *Hook], hostile)
            process = await run(script, folder, given | inner if variables is VARIABLES else given)
            async with asyncio.timeout(ENDS_S):
                assert await process.wait() in {0, 11, 13, 15}
        assert files(folder) == before
        assert all(target.startswith("/hooks/jobs/") and " " not in target for target in targets(server))
