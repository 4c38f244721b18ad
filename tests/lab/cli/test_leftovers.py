"""Whatever happens to the process that runs a lab, nothing of the lab is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cache import cache_folder
from lab.clock import wait_until
from lab.probe import request
from lab.registry import ProcessName, RunningLab, process_name, running
from lab.sandbox import all_pids

pytestmark = pytest.mark.lab

PATIENCE_S = 120

RUNNER = """
import signal
import sys
from lab.clock import wait_until
from lab.slurm import Slurm, SlurmNode

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests themselves run in the background
with Slurm(release="24.11", nodes=[SlurmNode("node-1")]) as slurm:
    script = "#!/bin/sh\\ntrap '' TERM HUP INT\\nwhile :; do sleep 1000; done\\n"
    slurm.run("sbatch", "--mem=1", "--output=/dev/null", stdin=script)
    wait_until(lambda: slurm.run("squeue", "-h", "-o", "%t").strip() == "R", "the job runs", timeout_s=60)
    print("ready", flush=True)
    sys.stdin.read()
"""


BESIDE = """
import os, subprocess, sys
print(os.environ["LAB_SLURM_URL"], os.environ["LAB_SLURM_PARSER"], os.environ["LAB_SLURM_TOKEN"])
subprocess.run([os.environ["LAB_KUBECTL"], "get", "nodes", "-o", "name"], check=True)
sys.exit(7)
"""


def members(lab: RunningLab) -> list[ProcessName]:
    wanted = os.stat(f"/proc/{lab.init.pid}/ns/pid").st_ino
    names = []
    for pid in all_pids():
        try:
            inside = os.stat(f"/proc/{pid}/ns/pid").st_ino == wanted
        except OSError:
            continue
        name = process_name(pid)
        if inside and name is not None:
            names.append(name)
    return names


def labs_of(runner: subprocess.Popen[str]) -> list[RunningLab]:
    return [lab for lab in running() if lab.runner.pid == runner.pid]


def assert_nothing_left(labs: list[RunningLab], processes: list[ProcessName]) -> None:
    wait_until(
        lambda: not any(process.alive for process in processes),
        "every process of the lab is gone",
        timeout_s=PATIENCE_S,
        detail=lambda: f"alive: {[process.pid for process in processes if process.alive]}",
    )
    assert not {lab.init for lab in labs} & {lab.init for lab in running()}
    assert not any(Path(lab.home).exists() for lab in labs)
    assert str(cache_folder()) not in Path("/proc/self/mounts").read_text()


@pytest.fixture
def runner() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_sigkill_of_the_runner_ends_daemons_steps_and_scripts(runner: subprocess.Popen[str]) -> None:
    labs = labs_of(runner)
    processes = [name for lab in labs for name in members(lab)]
    commands = [Path(f"/proc/{name.pid}/comm").read_text().strip() for name in processes]
    assert {"slurmctld", "slurmd", "slurmrestd", "slurmstepd"} <= set(commands)

    runner.send_signal(signal.SIGKILL)
    runner.wait()

    assert_nothing_left(labs, processes)


def test_the_end_of_the_with_block_ends_everything_at_once(runner: subprocess.Popen[str]) -> None:
    labs = labs_of(runner)
    processes = [name for lab in labs for name in members(lab)]
    assert runner.stdin is not None
    runner.stdin.close()
    assert runner.wait() == 0
    assert not any(process.alive for process in processes)
    assert_nothing_left(labs, processes)


def test_ctrl_c_ends_everything(runner: subprocess.Popen[str]) -> None:
    labs = labs_of(runner)
    processes = [name for lab in labs for name in members(lab)]
    runner.send_signal(signal.SIGINT)
    assert runner.wait() != 0
    assert_nothing_left(labs, processes)


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "from lab.slurm import Slurm, SlurmNode\n"
        "nonsense = {'SelectType': 'select/nonsense'}\n"
        "with Slurm(release='24.11', nodes=[SlurmNode('node-1')], config=nonsense):\n    pass\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "LabError" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert not [lab for lab in running() if lab.home.startswith(str(tmp_path))]


def test_a_command_is_run_beside_a_lab_that_ends_with_it() -> None:
    run = [sys.executable, "-m", "lab", "run", "--slurm", "26.05", "--nodes", "1", "--external", "1"]
    done = subprocess.run([*run, "--", sys.executable, "-uc", BESIDE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    told, *nodes = done.stdout.splitlines()
    assert nodes == ["node/external-1", "node/node-1"]
    url, parser, token = told.split()
    with pytest.raises(OSError, match="refused"):
        request("GET", f"{url}/slurm/{parser}/ping", headers={"X-SLURM-USER-TOKEN": token})


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Told to end where a test failed before it did that: nobody waits for it for ever."""
    with process:
        try:
            yield process
        finally:
            process.terminate()


def test_up_prints_what_to_try_and_down_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A list of its own of what runs, so that `down` ends this test's lab alone; ports and what is built are shared.
    for path in cache_folder().iterdir():
        if path.is_dir() and path.name != "running":
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.setenv("SLURM_EXTENDER_LAB_CACHE", str(tmp_path))
    lab = [sys.executable, "-m", "lab"]
    with ended(subprocess.Popen([*lab, "up", "--nodes", "1"], stdout=subprocess.PIPE, text=True)) as up:
        assert up.stdout is not None
        told = []
        for line in up.stdout:
            told.append(line)
            if line.startswith("Ctrl-C"):
                break
        assert any(line.startswith("export KUBECONFIG=") for line in told)
        labs = labs_of(up)
        assert [one.what.split()[0] for one in labs] == ["kubernetes", "slurm"]
        processes = [name for one in labs for name in members(one)]

        listed = subprocess.run([*lab, "status"], capture_output=True, text=True, check=True).stdout
        assert len(listed.splitlines()) == 2
        inside = subprocess.run([*lab, "slurm", "sinfo", "-h", "-o", "%N"], capture_output=True, text=True, check=True)
        assert inside.stdout.strip() == "node-1"

        subprocess.run([*lab, "down"], check=True, capture_output=True)
        assert up.wait() == 128 + signal.SIGTERM
    assert_nothing_left(labs, processes)
    assert subprocess.run([*lab, "status"], capture_output=True, text=True, check=True).stdout == "nothing runs\n"


def test_down_ends_no_lab_that_was_not_named(runner: subprocess.Popen[str]) -> None:
    [lab] = labs_of(runner)
    refused = subprocess.run([sys.executable, "-m", "lab", "down", "1"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.splitlines()[0][:24]) == (1, "error: pid 1 runs no lab")
    assert lab.init.alive
    processes = members(lab)
    subprocess.run([sys.executable, "-m", "lab", "down", str(runner.pid)], check=True, capture_output=True)
    runner.wait()
    assert_nothing_left([lab], processes)
