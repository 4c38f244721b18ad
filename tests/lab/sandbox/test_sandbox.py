"""What runs in a sandbox ends with it, and the machine does not see its mounts."""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import build_slurm
from lab.clock import wait_until
from lab.errors import LabError
from lab.registry import ProcessName, process_name
from lab.sandbox import Sandbox, all_pids

pytestmark = pytest.mark.lab

PATIENCE_S = 30


@pytest.fixture(scope="module")
def chroot() -> Path:
    return build_slurm.build(build_slurm.release("24.11"))


@pytest.fixture
def sandbox(chroot: Path, tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox(chroot, tmp_path, devices=["nvidia0"]) as running:
        yield running


def mounts() -> list[str]:
    return Path("/proc/self/mounts").read_text().splitlines()


def test_a_child_has_the_pid_that_the_machine_knows(sandbox: Sandbox) -> None:
    child = sandbox.spawn(["sleep", "1000"])
    wait_until(
        lambda: b"sleep" in Path(f"/proc/{child.pid}/cmdline").read_bytes().split(b"\0")[0],
        "the chain of programs has become sleep",
        timeout_s=PATIENCE_S,
    )
    assert child.pid in sandbox.pids()
    assert os.stat(f"/proc/{child.pid}/ns/pid").st_ino != os.stat("/proc/self/ns/pid").st_ino


def test_ctrl_c_in_a_terminal_reaches_the_lab_alone(sandbox: Sandbox) -> None:
    child = sandbox.spawn(["sleep", "1000"])
    assert os.getpgid(0) not in {os.getpgid(child.pid), os.getpgid(sandbox.init_pid)}


def test_a_script_can_trap_hangups_although_the_lab_runs_under_nohup(sandbox: Sandbox) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert sandbox.run(["sh", "-c", "trap 'echo heard' HUP; kill -HUP $$"]) == "heard\n"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_this_thread_continues_in_its_own_namespace(sandbox: Sandbox) -> None:
    done = subprocess.run(["readlink", "/proc/self/ns/pid"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == os.readlink("/proc/self/ns/pid")


def test_orphans_that_left_their_session_end_with_the_sandbox(chroot: Path, tmp_path: Path) -> None:
    with Sandbox(chroot, tmp_path) as sandbox:
        sandbox.run(["sh", "-c", "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' >/dev/null 2>&1 &"])
        wait_until(lambda: len(sandbox.pids()) == 3, "process 1, the shell and its sleep run", timeout_s=PATIENCE_S)
        names = [process_name(pid) for pid in sandbox.pids()]
    assert not any(name is not None and name.alive for name in names)


def test_the_machine_sees_no_mount_of_a_sandbox(chroot: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    assert sandbox.run(["cat", "/proc/self/mounts"]).count("tmpfs") >= 3
    assert not [line for line in mounts() if str(chroot) in line]


def test_the_chroot_in_the_cache_cannot_be_written_and_the_work_folder_can(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="Read-only file system"):
        sandbox.run(["touch", "/etc/changed"])
    sandbox.run(["touch", "/lab/written", "/tmp/written", "/run/written"])
    assert (tmp_path / "written").exists()


def test_devices_are_made(sandbox: Sandbox) -> None:
    kinds = sandbox.run(["stat", "-c", "%F", "/dev/nvidia0", "/dev/null"]).splitlines()
    assert kinds == ["character special file"] * 2


def test_two_sandboxes_of_one_chroot_do_not_see_each_other(chroot: Path, tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        home.mkdir()
    with Sandbox(chroot, homes[0]) as one, Sandbox(chroot, homes[1]) as two:
        one.run(["touch", "/run/mine"])
        assert two.run(["ls", "/run"]) == ""
        assert not set(one.pids()) & set(two.pids())


def test_a_sandbox_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    before = children_of_this()
    with pytest.raises(LabError, match="no-such-chroot"), Sandbox(tmp_path / "no-such-chroot", tmp_path):
        pass
    assert children_of_this() == before


def children_of_this() -> set[ProcessName]:
    found = set()
    for pid in all_pids():
        try:
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        name = process_name(pid)
        if int(parent) == os.getpid() and name is not None:
            found.add(name)
    return found


def test_threads_start_and_end_children_at_the_same_time(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(lambda number: sandbox.run(["echo", str(number)]), range(40)))
    assert said == [f"{number}\n" for number in range(40)]
    assert sandbox.pids() == [sandbox.init_pid]


def test_a_command_that_hangs_is_killed_and_named(sandbox: Sandbox) -> None:
    before = len(sandbox.pids())
    with pytest.raises(LabError, match=r"sleep 1000: no answer within 0\.2 s"):
        sandbox.run(["sleep", "1000"], timeout_s=0.2)
    assert len(sandbox.pids()) == before


def test_input_is_given_and_failure_has_the_programs_words(sandbox: Sandbox) -> None:
    assert sandbox.run(["tr", "a-z", "A-Z"], stdin="words") == "WORDS"
    with pytest.raises(LabError, match=r"failed \(3\): gone wrong"):
        sandbox.run(["sh", "-c", "echo gone wrong >&2; exit 3"])
