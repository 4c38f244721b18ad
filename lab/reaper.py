"""Process 1 of a sandbox; run as a script, by path, with a pidfd of the lab's process as standard input.

It does two things: it reaps orphans (a slurmstepd outlives its slurmd and is left to process 1), and it ends when the
lab's process does, however that ends: a pidfd becomes readable then (man 2 pidfd_open). With process 1 the kernel ends
every process of the PID namespace. A parent-death signal would not do: it is tied to the thread that forked.

Its arguments are cgroups: their trees outlive their processes, so it ends those and removes the trees before it ends.
"""

import os
import select
import signal
import sys
import time
from types import FrameType

TRIES, PAUSE_S = 200, 0.05


def reap(_signal: int, _frame: FrameType | None) -> None:
    """Collect every child that has ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def remove_trees(roots: list[str]) -> bool:
    """Remove these trees of cgroups from below; return whether none is left."""
    for root in roots:
        for folder, _, _ in os.walk(root, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:  # a process in it has not ended yet
                continue
    return not any(os.path.isdir(root) for root in roots)


def main() -> None:
    """Report that process 1 runs, then wait for the end of the lab's process."""
    signal.signal(signal.SIGCHLD, reap)
    os.write(1, b"ready\n")
    runner = select.poll()
    runner.register(0, select.POLLIN)
    runner.poll()
    cgroups = sys.argv[1:]
    if cgroups:
        os.kill(-1, signal.SIGKILL)  # from process 1: every other process of the namespace
        for _ in range(TRIES):
            if remove_trees(cgroups):
                break
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
