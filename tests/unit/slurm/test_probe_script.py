"""The probe's script in a real bash: each way in which the hooks can be out of reach has an exit code of its own."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme

from extender.doctor.checks.extender import ANOTHER, NO_CLIENT, NOBODY, NOT_TRUSTED, UNWELL
from extender.slurm.probe_script import probe_script
from tests.builders.hook_server import hooks


async def run(folder: Path, url: str, programs: Sequence[str] = ()) -> int:
    """The exit code; `programs` are all there are, where given."""
    script = folder / "probe.sh"
    script.write_text(probe_script(url))
    path = "/usr/bin:/bin"
    if programs:
        path = str(folder / "bin")
        (folder / "bin").mkdir()
        for program in programs:
            found = shutil.which(program)
            assert found is not None
            (folder / "bin" / program).symlink_to(found)
    process = await asyncio.create_subprocess_exec(
        "/bin/bash", str(script), env={"SLURM_JOB_ID": "17", "PATH": path}, stdout=asyncio.subprocess.PIPE
    )
    await process.communicate()
    assert process.returncode is not None
    return process.returncode


@pytest.mark.parametrize("programs", [(), ("timeout", "bash")], ids=["with curl", "without"])
async def test_the_answer_of_the_hooks_is_known(tmp_path: Path, programs: tuple[str, ...]) -> None:
    async with hooks(started=[202]) as server:
        assert await run(tmp_path, server.url, programs) == 0


@pytest.mark.parametrize("status", [200, 301, 401, 404])
async def test_an_unexpected_answer_is_reported(tmp_path: Path, status: int) -> None:
    async with hooks(started=[status]) as server:
        assert await run(tmp_path, server.url) == ANOTHER


async def test_an_extender_that_is_unwell_is_reported(tmp_path: Path) -> None:
    async with hooks(started=[503]) as server:
        assert await run(tmp_path, server.url) == UNWELL


async def test_a_certificate_that_the_node_does_not_trust_is_reported(tmp_path: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(server)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        assert await run(tmp_path, f"https://127.0.0.1:{port}") == NOT_TRUSTED


async def test_a_missing_server_is_reported(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert await run(tmp_path, f"http://127.0.0.1:{unused.getsockname()[1]}") == NOBODY


async def test_https_without_a_program_that_speaks_it_is_reported(tmp_path: Path) -> None:
    assert await run(tmp_path, "https://127.0.0.1:1", ("timeout", "bash")) == NO_CLIENT
