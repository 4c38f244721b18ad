"""`kubectl-slurm` as a process: what it imports, and how it ends when it is told to."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_slurm.group import INTERRUPTED
from tests.builders.plain_api import plain_api

PROGRAM = Path(sys.executable).parent / "kubectl-slurm"
HEAVY = ("aiohttp", "kubernetes", "pydantic", "fastapi", "structlog", "httpx")
GENEROUS_S = 120


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What is started here may be interrupted, even where a shell ran the tests in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_it_waits_for_the_api_server_ends_it_quietly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(GENEROUS_S)
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([PROGRAM, "jobs", "--server", server], stderr=subprocess.PIPE, text=True) as process:
            connection, _ = silent.accept()
            with connection:
                connection.settimeout(GENEROUS_S)
                assert connection.recv(3) == b"GET"
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=GENEROUS_S)
    assert (process.returncode, said) == (INTERRUPTED, "")


@pytest.mark.usefixtures("interruptible")
def test_the_console_of_the_leader_is_forwarded_until_an_interrupt() -> None:
    with plain_api() as api:
        api.lease, api.forwards = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}, True
        api.debug = {"console": {"page": "x" * 5000}}
        words = [str(PROGRAM), "ui", "--server", api.url]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert re.fullmatch(r"http://localhost:\d+/debug/console", address)
            with urllib.request.urlopen(address.replace("localhost", "127.0.0.1"), timeout=GENEROUS_S) as reply:
                assert json.load(reply) == {"page": "x" * 5000}
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=GENEROUS_S)
        assert (process.returncode, said) == (INTERRUPTED, "")
        path = "/api/v1/namespaces/slurm-extender/pods/slurm-extender-abc/portforward"
        assert api.forwarded == [(path, "8083")]


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with plain_api() as api:
        done = subprocess.run(
            [PROGRAM, "jobs", "--server", api.url, "-o", "json"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=GENEROUS_S,
            check=False,
        )
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_nothing_heavy_is_imported_before_a_request_is_made() -> None:
    code = f"import sys, kubectl_slurm.program; print([one for one in {HEAVY!r} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=GENEROUS_S, check=True)
    assert done.stdout == "[]\n"
