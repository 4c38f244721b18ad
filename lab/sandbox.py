"""A sandbox: PID, mount, UTS and IPC namespaces in which one cluster's processes run.

Why namespaces and not pid files: slurmstepd, batch scripts and Epilogs outlive slurmd on purpose. In a PID namespace
the kernel itself kills whatever is left when process 1 ends (man 7 pid_namespaces), mounts go with the last process,
each Slurm cluster has a /run of its own (auth/slurm's socket lives there), and the chroot in the cache stays as it was
built. The network is the machine's: ports on 127.0.0.1 are reached from outside.
"""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from lab.build_slurm import MOUNTPOINT
from lab.errors import LabError
from lab.machine import require_programs, require_root

CLONE_NEWPID = 0x20000000
REAPER = Path(__file__).with_name("reaper.py")
CHROOT_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}

MOUNTS = """
root=$1 work=$2 devices=$3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=755 dev "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/tty" c 5 0
for device in $devices; do mknod -m 666 "$root/dev/$device" c 1 3; done
mount --bind "$work" "$root/MOUNTPOINT"
""".replace("MOUNTPOINT", MOUNTPOINT)


def system_call(name: str, *arguments: int) -> None:
    """Call setns or unshare of the C library (Python has them from 3.12 on); raise OSError as os does."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@contextmanager
def _children_in(namespace: Path | None) -> Iterator[None]:
    """Let children of this thread be born in the PID namespace at ``namespace``, or the first one in a new namespace.

    Only children born inside the block are concerned, and only those of this thread (man 7 pid_namespaces). Entered
    this way, and not by ``nsenter --pid``, a child keeps the pid that Popen knows: nsenter would fork once more.
    """
    home = os.open("/proc/thread-self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if namespace is None:
            system_call("unshare", CLONE_NEWPID)
        else:
            there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                system_call("setns", there, CLONE_NEWPID)
            finally:
                os.close(there)
        try:
            yield
        finally:
            system_call("setns", home, CLONE_NEWPID)
    finally:
        os.close(home)


class Sandbox:
    """Namespaces around a chroot: ``work`` is seen inside it as ``/lab``; ``devices`` are made under ``/dev``.

    A context manager. On leaving, and also when this process is killed, everything that was started inside is gone.
    ``cgroups`` are trees that process 1 removes where this process is killed; an orderly end leaves them to the caller.
    """

    def __init__(self, chroot: Path, work: Path, *, devices: Sequence[str] = (), cgroups: Sequence[Path] = ()) -> None:
        self._chroot = chroot
        self._work = work
        self._devices = tuple(devices)
        self._cgroups = tuple(map(str, cgroups))
        self._init: subprocess.Popen[bytes] | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()  # tests run commands from several threads

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def init_pid(self) -> int:
        """Return the machine's pid of the sandbox's process 1; raise LabError when it does not run."""
        if self._init is None:
            raise LabError(f"the sandbox over {self._work} is not running")
        return self._init.pid

    def start(self) -> None:
        """Make the namespaces and the mounts; raise LabError where the machine forbids them."""
        require_root()
        require_programs(("env", "unshare", "nsenter", "mount", "chroot"))
        # Site-packages and the caller's environment are of no use to process 1: -I -S keep it small and quick.
        reaper = [sys.executable, "-I", "-S", str(REAPER), *self._cgroups]
        runner = os.pidfd_open(os.getpid())
        try:
            with _children_in(None):
                self._init = subprocess.Popen(
                    ["unshare", "--mount", "--uts", "--ipc", "--", *reaper],
                    stdin=runner,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd="/",
                    env={},
                    start_new_session=True,  # Ctrl-C in a terminal goes to the lab alone, which then stops in order
                )
        finally:
            os.close(runner)
        assert self._init.stdout is not None
        assert self._init.stderr is not None
        if self._init.stdout.readline() != b"ready\n":
            said = self._init.stderr.read().decode(errors="replace").strip()
            raise LabError(f"cannot make namespaces here: {said or 'process 1 of the sandbox ended'}")
        self.run_outside(["/bin/sh", "-euc", MOUNTS, "sh", str(self._chroot), str(self._work), " ".join(self._devices)])
        self.run_outside(["hostname", "lab"])

    def stop(self) -> None:
        """Kill everything inside and wait until the kernel says that it is gone; harmless when nothing runs."""
        if self._init is None:
            return
        init, self._init = self._init, None
        init.kill()
        # Process 1 cannot finish before this process has collected those of its own children that lived inside.
        with self._lock:
            for child in self._children:
                child.wait()
            self._children.clear()
        init.wait()
        for pipe in (init.stdout, init.stderr):
            if pipe is not None:
                pipe.close()

    def spawn(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        in_chroot: bool = True,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start ``command`` inside; its pid is the machine's, so that signals can be sent to it from outside."""
        namespaces = Path(f"/proc/{self.init_pid}/ns")
        inside = (f"--{kind}={namespaces / name}" for kind, name in _KINDS.items())
        enter = [*_DEFAULT_SIGNALS, "nsenter", "--no-fork", *inside, "--"]
        base = CHROOT_ENVIRONMENT if in_chroot else {**os.environ}
        with _children_in(namespaces / "pid"):
            child = subprocess.Popen(
                [*enter, *(["chroot", str(self._chroot)] if in_chroot else []), *command],
                env={**base, **(environment or {})},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd="/",
                start_new_session=True,
            )
        with self._lock:
            self._children = [other for other in self._children if other.poll() is None]
            self._children.append(child)
        return child

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout_s: float = 60,
    ) -> str:
        """Run ``command`` in the chroot and return what it printed; raise LabError if it fails or hangs."""
        return self._call(command, environment=environment, stdin=stdin, timeout_s=timeout_s, in_chroot=True)

    def run_outside(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout_s: float = 60
    ) -> str:
        """Run ``command`` in the namespaces but over the machine's own root; else as :meth:`run`."""
        return self._call(command, environment=environment, timeout_s=timeout_s)

    def pids(self) -> list[int]:
        """Return every process inside by the machine's pid, process 1 included."""
        wanted = os.stat(f"/proc/{self.init_pid}/ns/pid").st_ino
        return [pid for pid in all_pids() if _namespace_of(pid) == wanted]

    def _call(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout_s: float = 60,
        in_chroot: bool = False,
    ) -> str:
        child = self.spawn(
            command,
            environment=environment,
            in_chroot=in_chroot,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with child:
            try:
                out, err = child.communicate(None if stdin is None else stdin.encode(), timeout=timeout_s)
            except subprocess.TimeoutExpired:
                child.kill()
                raise LabError(f"{' '.join(command)[:200]}: no answer within {timeout_s:g} s") from None
            except BaseException:
                child.kill()
                raise
        if child.returncode != 0:
            said = (err or out).decode(errors="replace").strip()
            raise LabError(f"{' '.join(command)[:200]} failed ({child.returncode}): {said}")
        return out.decode(errors="replace")


# Under nohup a child inherits that SIGHUP is ignored, and bash never traps a signal that was ignored when it started.
_DEFAULT_SIGNALS = ("env", "--default-signal=HUP")

_KINDS = {"mount": "mnt", "uts": "uts", "ipc": "ipc"}


def all_pids() -> list[int]:
    """Return every process of this machine that this process can see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _namespace_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:  # it has ended meanwhile
        return None
