"""Process 1 of a sandbox; run as a script, by path, with a pidfd of the lab's process as standard input.

It does two things: it reaps orphans (a slurmstepd outlives its slurmd and is left to process 1), and it ends when the
lab's process does, however that ends: a pidfd becomes readable then (man 2 pidfd_open). With process 1 the kernel ends
every process of the PID namespace. A parent-death signal would not do: it is tied to the thread that forked.
"""

import os
import select
import signal
from types import FrameType


def reap(_signal: int, _frame: FrameType | None) -> None:
    """Collect every child that has ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def main() -> None:
    """Say that process 1 runs, then wait for the end of the lab's process."""
    signal.signal(signal.SIGCHLD, reap)
    os.write(1, b"ready\n")
    runner = select.poll()
    runner.register(0, select.POLLIN)
    runner.poll()


if __name__ == "__main__":
    main()
