"""A daemon of the lab: started, watched, stopped and started again, always by the pid of the very process."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.clock import wait_until
from lab.errors import LabError
from lab.sandbox import Sandbox

LOG_TAIL_BYTES = 3000
READY_S = 0.05
"""Between two looks at a daemon that starts: how long starts take is measured with these."""


def log_tail(path: Path) -> str:
    """Return the last lines of a log, for an error's text."""
    if not path.exists():
        return f"({path} does not exist)"
    return f"The end of {path}:\n{path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors='replace')}"


class Daemon:
    """One process that belongs to a cluster; it stays in the foreground, its output goes to ``log``.

    ``ready`` is asked until it answers true; None means that running is enough. An OSError from it counts as "not yet".
    ``prepare`` is called before every start. ``url`` is where it serves, empty if it has no HTTP endpoint.
    """

    def __init__(
        self,
        name: str,
        sandbox: Sandbox,
        command: Sequence[str],
        *,
        log: Path,
        ready: Callable[[], bool] | None = None,
        prepare: Callable[[], None] | None = None,
        environment: Mapping[str, str] | None = None,
        in_chroot: bool = False,
        url: str = "",
        ready_timeout_s: float = 60,
    ) -> None:
        self.name = name
        self.url = url
        self.log = log
        self.command = tuple(command)
        self._sandbox = sandbox
        self._ready = ready
        self._prepare = prepare
        self._environment = dict(environment or {})
        self._in_chroot = in_chroot
        self._ready_timeout_s = ready_timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Return whether the process exists (one stopped by SIGSTOP does)."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the machine's pid of the running process; raise LabError when it does not run."""
        if self._process is None or not self.running:
            raise LabError(f"{self.name} is not running. {log_tail(self.log)}")
        return self._process.pid

    def launch(self) -> None:
        """Start the process without waiting for it to be ready; raises LabError when it runs already."""
        if self.running:
            raise LabError(f"{self.name} is running already, pid {self.pid}")
        if self._prepare is not None:
            self._prepare()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = self._sandbox.spawn(
                self.command,
                environment=self._environment,
                in_chroot=self._in_chroot,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_ready(self) -> None:
        """Wait until the process serves; raises LabError with the end of its log when it ends or takes too long."""
        wait_until(
            self._serves,
            f"{self.name} is ready",
            timeout_s=self._ready_timeout_s,
            every_s=READY_S,
            detail=lambda: log_tail(self.log),
        )

    def start(self) -> None:
        """Start the process and wait until it serves."""
        self.launch()
        self.wait_ready()

    def stop(self, *, grace_s: float = 30) -> None:
        """Send SIGTERM, then SIGKILL after ``grace_s`` seconds; return when the process is gone."""
        if self._process is None:
            return
        if self.running:
            # A process that was stopped with SIGSTOP does not handle its SIGTERM.
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """Send SIGKILL, as a crash; return when the process is gone. Raises LabError when it does not run."""
        os.kill(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Send SIGSTOP, and SIGCONT at the end: the process stands still, and the kernel accepts its connections."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if self.running:
                os.kill(pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop in order, start again, wait until it serves."""
        self.stop()
        self.start()

    def _serves(self) -> bool:
        if not self.running:
            status = "was never started" if self._process is None else f"ended with status {self._process.returncode}"
            raise LabError(f"{self.name} {status}. {log_tail(self.log)}")
        if self._ready is None:
            return True
        try:
            return self._ready()
        except OSError:
            return False
