"""The lock of a process is free once the process is dead, and not before."""

from __future__ import annotations

import subprocess
import sys

from extender.assembly.process_lock import SocketLock

HOLDER = """
import sys
from extender.assembly.process_lock import SocketLock
lock = SocketLock(sys.argv[1], lambda: 1.0)
print(lock.name, lock.since(), flush=True)
sys.stdin.read()
"""


def a_holder(purpose: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, purpose]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_lock_is_held_until_its_process_is_killed() -> None:
    purpose = "tests/killed"
    with a_holder(purpose) as holder:
        assert holder.stdout is not None
        said = holder.stdout.readline().split()
        lock = SocketLock(purpose, lambda: 7.0)
        assert said == [lock.name, "1.0"]
        assert lock.since() is None
        holder.kill()
        holder.wait()
        assert lock.since() == 7.0
    lock.close()


def test_the_instant_at_which_a_lock_was_taken_stays() -> None:
    times = iter((3.0, 9.0))
    lock = SocketLock("tests/instant", lambda: next(times))
    assert (lock.since(), lock.since()) == (3.0, 3.0)
    lock.close()


def test_processes_with_another_purpose_do_not_disturb_each_other() -> None:
    one, two = (SocketLock(f"tests/purpose-{number}", lambda: 1.0) for number in range(2))
    assert one.name != two.name
    assert one.since() == two.since() == 1.0
    one.close()
    two.close()


def test_a_lock_that_is_closed_is_free() -> None:
    one, two = (SocketLock("tests/closed", lambda: 1.0) for _ in range(2))
    assert (one.since(), two.since()) == (1.0, None)
    one.close()
    assert two.since() == 1.0
    two.close()
