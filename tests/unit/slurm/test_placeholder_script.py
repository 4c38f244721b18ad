"""The batch script, run by a real bash against a hook server on loopback.

Every wait is for something that happens: a request that arrives, a process that ends.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from extender.domain.wellknown import Hook
from extender.slurm.placeholder_script import SCRIPT
from tests.builders.hook_server import TOKEN, hooks

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Runs the script in a process group of its own, as slurmstepd does, with the environment that Slurm gives."""
    script = tmp_path / "slurm_script"
    script.write_text(SCRIPT)
    started: list[asyncio.subprocess.Process] = []

    async def run(
        url: str, *, wait: int = 20, path: str = "/usr/bin:/bin", token: str = TOKEN
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            str(script),
            env={Hook.URL: url, Hook.TOKEN: token, Hook.WAIT: str(wait), "SLURM_JOB_ID": "17", "PATH": path},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            # nohup ignores it, and bash sets no trap for what is ignored when it begins.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )
        started.append(process)
        return process

    yield run
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        finally:
            await process.communicate()


@pytest.fixture
def without_curl(tmp_path: Path) -> str:
    """A PATH with what every node has, and no HTTP client."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("sleep", "timeout"):
        found = shutil.which(program)
        assert found is not None
        (folder / program).symlink_to(found)
    return str(folder)


@pytest.fixture
def reporting_sleep(without_curl: str) -> str:
    """A PATH whose `sleep` says so first: bash has then set its traps."""
    sleep = Path(without_curl) / "sleep"
    sleep.unlink()
    sleep.write_text(f'#!/bin/bash\necho asleep\nexec {shutil.which("sleep")} "$@"\n')
    sleep.chmod(0o755)
    return without_curl


async def asleep(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    assert await process.stdout.readline() == b"asleep\n"


def waits(target: str) -> int:
    """For how many seconds an end waits, by what it asks. bash counts the ticks of whole seconds: one may have come."""
    path, _, seconds = target.partition("?wait=")
    assert path == "/hooks/jobs/17/teardown"
    return int(seconds)


async def test_it_reports_its_start_with_its_token(start: Start) -> None:
    async with hooks() as server:
        process = await start(server.url)
        assert await server.next(process) == "/hooks/jobs/17/started"


async def test_an_end_is_reported_and_the_job_lets_go_once_the_pod_is_gone(start: Start) -> None:
    async with hooks(teardown=[202, 202, 200]) as server:
        process = await start(server.url, wait=20)
        assert await server.next(process) == "/hooks/jobs/17/started"
        os.killpg(process.pid, signal.SIGTERM)
        assert [(await server.next(process)).partition("=")[0] for _ in range(3)] == [
            "/hooks/jobs/17/teardown?wait"
        ] * 3
        assert await process.wait() == 0


async def test_it_never_waits_longer_than_requested(start: Start) -> None:
    async with hooks(teardown=[202]) as server:
        process = await start(server.url, wait=2)
        await server.next(process)
        os.killpg(process.pid, signal.SIGTERM)
        assert 1 <= waits(await server.next(process)) <= 2
        assert await process.wait() == 0


async def test_an_unknown_job_ends_at_once(start: Start) -> None:
    async with hooks(teardown=[404]) as server:
        process = await start(server.url)
        await server.next(process)
        os.killpg(process.pid, signal.SIGTERM)
        await server.next(process)
        assert await process.wait() == 0
        assert server.requests.empty()


async def test_a_refused_token_does_not_make_it_let_go_early(start: Start) -> None:
    async with hooks(teardown=[401, 401, 200]) as server:
        process = await start(server.url)
        await server.next(process)
        os.killpg(process.pid, signal.SIGTERM)
        for _ in range(3):
            await server.next(process)
        assert await process.wait() == 0


async def test_a_warning_is_reported_and_ends_nothing(start: Start) -> None:
    async with hooks() as server:
        process = await start(server.url)
        await server.next(process)
        process.send_signal(signal.SIGUSR1)
        assert await server.next(process) == "/hooks/jobs/17/teardown?wait=0"
        assert process.returncode is None
        process.send_signal(signal.SIGUSR1)
        assert await server.next(process) == "/hooks/jobs/17/teardown?wait=0"
        os.killpg(process.pid, signal.SIGTERM)
        assert 19 <= waits(await server.next(process)) <= 20
        assert await process.wait() == 0


async def test_further_signals_do_not_disturb_the_wait(start: Start) -> None:
    async with hooks(teardown=[202, 200]) as server:
        process = await start(server.url)
        await server.next(process)
        os.killpg(process.pid, signal.SIGTERM)
        await server.next(process)
        os.killpg(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGCONT)
        await server.next(process)
        assert await process.wait() == 0


async def test_bash_alone_speaks_http_where_no_client_is_installed(start: Start, without_curl: str) -> None:
    async with hooks(teardown=[202, 200]) as server:
        process = await start(server.url, path=without_curl)
        assert await server.next(process) == "/hooks/jobs/17/started"
        os.killpg(process.pid, signal.SIGTERM)
        await server.next(process)
        await server.next(process)
        assert await process.wait() == 0


async def test_without_hooks_it_only_sleeps_and_ends_at_once(start: Start, reporting_sleep: str) -> None:
    process = await start("", path=reporting_sleep)
    await asleep(process)
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


async def test_hooks_that_cannot_be_reached_hold_the_end_no_longer_than_configured(
    start: Start, reporting_sleep: str
) -> None:
    async with hooks() as server:
        gone = server.url
    process = await start(gone, wait=1, path=reporting_sleep)
    await asleep(process)
    os.killpg(process.pid, signal.SIGTERM)
    assert await process.wait() == 0


async def test_the_token_never_stands_on_a_command_line(start: Start, without_curl: str) -> None:
    seen = Path(without_curl) / "seen"
    curl = Path(without_curl) / "curl"
    curl.write_text(f'#!/bin/bash\nprintf "%s\\n" "$*" >> {seen}\nexec {shutil.which("curl")} "$@"\n')
    curl.chmod(0o755)
    async with hooks() as server:
        process = await start(server.url, path=without_curl)
        await server.next(process)
        assert "/hooks/jobs/17/started" in seen.read_text()
        assert TOKEN not in seen.read_text()


async def test_it_says_nothing_on_its_output(start: Start) -> None:
    async with hooks(teardown=[200]) as server:
        process = await start(server.url)
        await server.next(process)
        os.killpg(process.pid, signal.SIGTERM)
        assert await process.communicate() == (b"", b"")


@pytest.mark.parametrize(("said", "code"), [(signal.SIGUSR2, 0), (signal.SIGHUP, 1)])
async def test_a_pod_that_ended_by_itself_ends_the_script_as_it_did_and_calls_no_hook(
    start: Start, reporting_sleep: str, said: signal.Signals, code: int
) -> None:
    process = await start("", path=reporting_sleep)
    await asleep(process)
    process.send_signal(said)  # the script alone, as Slurm does for BATCH_JOB
    assert await process.wait() == code
    assert process.stdout is not None
    assert await process.stdout.read() == b""  # nor does its sleep stay behind, which holds the other end
