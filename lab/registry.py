"""A registry of the labs of this machine: one small file each, so that another process can list and stop them.

A pid alone is no name: it is given out again. With the start time from /proc/<pid>/stat it is one.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.cache import cache_folder
from lab.clock import wait_until
from lab.errors import LabError


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A process of this machine for good: its pid and its start time in clock ticks since boot."""

    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Return whether that very process exists and is not a zombie."""
        return process_name(self.pid) == self


def process_name(pid: int) -> ProcessName | None:
    """Return the name of the living process ``pid``, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the command in parentheses and may hold anything, so count from its end (man 5 proc).
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return ProcessName(pid, int(fields[19]))


@dataclass(frozen=True, slots=True)
class RunningLab:
    """Describe a started sandbox: its kind, its runner, its process 1, its files and its root.

    ``temporary`` says that the lab made the folder above ``home`` itself and removes it at the end.
    """

    what: str
    runner: ProcessName
    init: ProcessName
    home: str
    chroot: str
    temporary: bool


def _folder() -> Path:
    return cache_folder() / "running"


@contextmanager
def entered(what: str, init_pid: int, home: Path, chroot: Path, *, temporary: bool) -> Iterator[None]:
    """Keep an entry for a running sandbox while the block runs."""
    running()  # clears up after labs that were killed
    runner, init = process_name(os.getpid()), process_name(init_pid)
    if runner is None or init is None:
        raise LabError(f"process 1 of {what} (pid {init_pid}) has ended already")
    path = _folder() / f"{init.pid}-{init.start_ticks}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(RunningLab(what, runner, init, str(home), str(chroot), temporary))))
    partial.rename(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running() -> list[RunningLab]:
    """Return the labs that run. Remove entries and temporary folders of labs that were killed."""
    found = []
    for path in sorted(_folder().glob("*.json")):
        lab = _read(path)
        if lab is None:
            continue
        if lab.init.alive:
            found.append(lab)
            continue
        if lab.temporary:
            shutil.rmtree(Path(lab.home).parent, ignore_errors=True)
        path.unlink(missing_ok=True)
    return found


def _read(path: Path) -> RunningLab | None:
    """Return the entry in ``path``, or None if it is gone or was written by a lab of another version."""
    try:
        raw = json.loads(path.read_text())
        raw["runner"], raw["init"] = (ProcessName(**raw[role]) for role in ("runner", "init"))
        return RunningLab(**raw)
    except (FileNotFoundError, KeyError, TypeError):
        return None


def end(lab: RunningLab, *, timeout_s: float = 30) -> None:
    """End a lab: SIGTERM to its runner, which stops in order; the sandbox's process 1 is killed if no runner lives.

    Raises LabError when it is still there after ``timeout_s`` seconds.
    """
    if lab.runner.alive:
        os.kill(lab.runner.pid, signal.SIGTERM)
    elif lab.init.alive:
        os.kill(lab.init.pid, signal.SIGKILL)
    wait_until(lambda: not lab.init.alive, f"{lab.what} (pid {lab.init.pid}) has ended", timeout_s=timeout_s)
