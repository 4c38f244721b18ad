"""A Slurm cluster on one machine: slurmctld, slurmrestd, a slurmd for each node that has one, slurmdbd if wanted."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jwt

from lab import build_slurm, registry
from lab.cache import cache_folder
from lab.clock import now, wait_until
from lab.errors import LabError
from lab.managed_service import ManagedService
from lab.mariadb import mariadb
from lab.ports import Ports
from lab.probe import decoded, request
from lab.process import Daemon, log_tail
from lab.sandbox import Sandbox
from lab.slurm_conf import (
    CGROUP_CONF,
    HOME,
    Partition,
    SlurmNode,
    SlurmPorts,
    gpu_devices,
    gres_conf,
    slurm_conf,
)
from lab.slurmdbd import slurmdbd, write_slurmdbd_conf

__all__ = ["DEFAULT_PARTITIONS", "Partition", "Slurm", "SlurmNode"]

DEFAULT_PARTITIONS = (Partition("batch", default=True),)
EXTERNAL_SINCE = (25, 5)
SOCKET_TAKEN = "Address already in use"
"""How a slurmd ends that lost a race for auth/slurm's socket (`sack_api.c`)."""

NO_TOKEN = "failed to create token"
"""auth/slurm of 24.11 could not sign a request, once in some thousand commands. Nothing was sent: it is repeated."""

ENVIRONMENT = {"SLURM_CONF": f"{HOME}/etc/slurm.conf"}
Machines = Callable[[Path, Path], Mapping[str, Sandbox]]
"""Called with the chroot and the home of a cluster; returns the sandboxes of slurmds that do not share the cluster's,
by node. They must be running."""

SETTLING = {"UNKNOWN", "DOWN", "NOT_RESPONDING", "FUTURE", "REBOOT_REQUESTED"}


class Slurm(ManagedService):
    """One cluster, up between ``with`` and its end; several may run at once, of one release or of two.

    ``config`` are keys of slurm.conf over the lab's own; ``files`` are scripts put beside slurm.conf (an Epilog, say),
    executable, which the daemons see as ``/lab/etc/<name>``. Files, logs and state live under ``workdir`` (a temporary
    folder when None), in a new folder each time. Jobs may run as root, alice (2001) and bob (2002).

    ``machines`` gives nodes sandboxes of their own, in which their slurmd and its jobs run.

    With ``accounting`` there are slurmdbd and its database, and limits hold: root has an association from the start,
    other users get one by :meth:`sacctmgr`.
    """

    def __init__(
        self,
        *,
        release: str = "24.11",
        nodes: Sequence[SlurmNode] = (),
        external_nodes: Sequence[SlurmNode] = (),
        partitions: Sequence[Partition] = DEFAULT_PARTITIONS,
        config: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        accounting: bool = False,
        machines: Machines | None = None,
        workdir: Path | None = None,
    ) -> None:
        super().__init__()
        self.release = build_slurm.release(release)
        major, minor = (int(part) for part in release.split("."))
        if external_nodes and (major, minor) < EXTERNAL_SINCE:
            raise LabError(
                f"Slurm {release} knows no State=EXTERNAL (it came with 25.05): use nodes with slurmd, or 26.05"
            )
        if not nodes and not external_nodes:
            raise LabError("a Slurm cluster needs a node: give nodes= or external_nodes=")
        self.nodes = tuple(nodes)
        self.external_nodes = tuple(external_nodes)
        self.partitions = tuple(partitions)
        self.version = ""
        self.accounting = accounting
        self._config = dict(config or {})
        self._files = dict(files or {})
        self._find_machines = machines
        self._workdir = workdir

    def _start(self) -> None:
        chroot = build_slurm.build(self.release)
        self.version = build_slurm.slurm_version(chroot)
        temporary = self._workdir is None
        workdir = self._workdir or Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-lab-")))
        self.home = Path(tempfile.mkdtemp(prefix=f"slurm-{self.release.name}-", dir=workdir.resolve()))
        self._write_folders()
        ports = self._stack.enter_context(Ports(cache_folder() / "ports"))
        self._ports = SlurmPorts(
            ports.take(),
            ports.take(),
            {node.name: ports.take() for node in self.nodes},
            ports.take() if self.accounting else None,
        )
        self._write_config()
        devices = gpu_devices((*self.nodes, *self.external_nodes))
        # Its end kills slurmstepd and scripts with everything else: no job has to be cancelled.
        self._sandbox = self._stack.enter_context(Sandbox(chroot, self.home, devices=devices))
        self._stack.enter_context(
            registry.entered(f"slurm {self.version}", self._sandbox.init_pid, self.home, chroot, temporary=temporary)
        )
        # Of two slurmds that make it at once, one ends for it (slurmd.c, _prepare_run_dir).
        self._sandbox.run(["mkdir", "/run/slurm"], environment=ENVIRONMENT)
        self._machines = self._find_machines(chroot, self.home) if self._find_machines else {}
        self._accountants = self._start_accounting()
        self._slurmctld = self._daemon("slurmctld", ["slurmctld", "-D"], ready=self._slurmctld_answers)
        self._slurmds = {node.name: self._slurmd_daemon(node.name) for node in self.nodes}
        self._relaunched: set[str] = set()
        self._slurmrestd = self._slurmrestd_daemon()
        for daemon in (self._slurmctld, *self._slurmds.values(), self._slurmrestd):
            daemon.launch()
        self._slurmrestd.wait_ready()
        self._slurmctld.wait_ready()
        self.wait_nodes_ready()

    # Addresses and credentials

    @property
    def rest_url(self) -> str:
        """Return the address of slurmrestd, such as ``http://127.0.0.1:20123``."""
        return f"http://127.0.0.1:{self._ports.slurmrestd}"

    @property
    def jwt_key_path(self) -> Path:
        """Return the HS256 key of auth/jwt, outside the chroot."""
        return self.home / "etc" / "jwt.key"

    def token(self, user: str = "root", *, lifespan_s: int = 86_400) -> str:
        """Mint a token for ``user``; what ``scontrol token`` does, without asking slurmctld."""
        issued = int(now())
        claims = {"iat": issued, "exp": issued + lifespan_s, "sun": user}
        return jwt.encode(claims, self.jwt_key_path.read_bytes(), algorithm="HS256")

    def rest(self, method: str, path: str, body: object = None, *, user: str = "root") -> tuple[int, Any]:
        """Ask slurmrestd; ``path`` comes after ``/slurm/<parser>/``. Returns the status and the decoded answer."""
        url = f"{self.rest_url}/slurm/{self.release.parser}/{path}"
        status, answer = request(method, url, headers={"X-SLURM-USER-TOKEN": self.token(user)}, body=body)
        return status, decoded(answer)

    # Commands and daemons

    def run(self, *command: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run a command in the cluster's chroot as root (squeue, scontrol, sbatch ...); raises LabError if it fails."""
        try:
            return self._sandbox.run(command, environment=ENVIRONMENT, stdin=stdin, timeout_s=timeout_s)
        except LabError as error:
            if NO_TOKEN not in str(error):
                raise
        return self._sandbox.run(command, environment=ENVIRONMENT, stdin=stdin, timeout_s=timeout_s)

    def sacctmgr(self, *words: str) -> str:
        """Run ``sacctmgr --immediate --parsable2 --noheader``; slurmctld knows the change when it returns."""
        return self.run("sacctmgr", "--immediate", "--parsable2", "--noheader", *words)

    def daemon(self, name: str) -> Daemon:
        """Return ``slurmctld``, ``slurmrestd``, or the slurmd of the node so named; raises LabError for other names.

        With accounting also ``slurmdbd`` and ``mariadbd``.
        """
        found = {
            "slurmctld": self._slurmctld,
            "slurmrestd": self._slurmrestd,
            **self._accountants,
            **self._slurmds,
        }
        if name not in found:
            raise LabError(f"no daemon {name!r} in this cluster; there are {', '.join(found)}")
        return found[name]

    def pid(self, name: str) -> int:
        """Return the machine's pid of a daemon (see :meth:`daemon`), for SIGSTOP and the like."""
        return self.daemon(name).pid

    def start_slurmctld(self) -> None:
        """Start slurmctld and wait until it answers; its state is kept."""
        self._slurmctld.start()

    def stop_slurmctld(self) -> None:
        """Send SIGTERM: slurmctld saves its state and ends."""
        self._slurmctld.stop()

    def kill_slurmctld(self) -> None:
        """Send SIGKILL, as a crash: unsaved state is lost."""
        self._slurmctld.kill()

    def restart_slurmctld(self) -> None:
        """Stop and start slurmctld."""
        self._slurmctld.restart()

    def save_state(self) -> Path:
        """Stop slurmctld, copy its StateSaveLocation, start it again; the copy is for :meth:`restore_state`."""
        self.stop_slurmctld()
        saved = Path(tempfile.mkdtemp(prefix="saved-", dir=self.home)) / "state"
        shutil.copytree(self.home / "state", saved)
        self.start_slurmctld()
        return saved

    def restore_state(self, saved: Path) -> None:
        """Stop slurmctld and start it with an older state: it forgets the jobs made since, and gives out their ids."""
        self.stop_slurmctld()
        shutil.rmtree(self.home / "state")
        shutil.copytree(saved, self.home / "state")
        self.start_slurmctld()

    def start_slurmrestd(self) -> None:
        """Start slurmrestd and wait until it answers."""
        self._slurmrestd.start()

    def stop_slurmrestd(self) -> None:
        """Send SIGTERM to slurmrestd; SIGKILL after a few seconds, as it can wait for a silent connection."""
        self._slurmrestd.stop(grace_s=5)

    def kill_slurmrestd(self) -> None:
        """Send SIGKILL to slurmrestd."""
        self._slurmrestd.kill()

    def start_slurmd(self, node: str) -> None:
        """Start the slurmd of ``node``; the node is back a moment later (see :meth:`wait_nodes_ready`)."""
        self.daemon(node).start()

    def kill_slurmd(self, node: str) -> None:
        """Send SIGKILL: steps, scripts and Epilogs of the node live on."""
        self.daemon(node).kill()

    def reconfigure(self, config: Mapping[str, str]) -> None:
        """Change keys of slurm.conf and ``scontrol reconfigure``; an empty value removes a key."""
        self._config.update(config)
        self._write_config()
        self.run("scontrol", "reconfigure")

    def wait_nodes_ready(self, *, timeout_s: float = 60) -> None:
        """Wait until every node has registered; raise LabError at once if a slurmd does not run."""
        wait_until(
            self._nodes_ready,
            "every node has reported to slurmctld",
            timeout_s=timeout_s,
            detail=lambda: f"{self.run('sinfo', '-N', '-l')}\n{log_tail(self._slurmctld.log)}",
        )

    # How it is made

    def _daemon(self, name: str, command: Sequence[str], *, sandbox: Sandbox | None = None, **options: Any) -> Daemon:
        options.setdefault("environment", ENVIRONMENT)
        log = self.home / "log" / f"{name}.log"
        return Daemon(name, sandbox or self._sandbox, command, log=log, in_chroot=True, **options)

    def _slurmd_daemon(self, name: str) -> Daemon:
        if name in self._machines:
            # Its /run is its own, and the commands of its jobs find the slurmd there.
            return self._daemon(f"slurmd-{name}", ["slurmd", "-D", "-N", name], sandbox=self._machines[name])
        # Each its own sack.socket of auth/slurm: slurmds that start together in one /run fight over it, and the loser
        # ends with "Address already in use" (sack_api.c). Clients find slurmctld's own.
        runtime = f"{HOME}/run/{name}"
        (self.home / "run" / name).mkdir(exist_ok=True)
        environment = {**ENVIRONMENT, "RUNTIME_DIRECTORY": runtime}
        return self._daemon(f"slurmd-{name}", ["slurmd", "-D", "-N", name], environment=environment)

    def _start_accounting(self) -> dict[str, Daemon]:
        """Start the database and slurmdbd, one after the other: each gives up, or sleeps for long, without the next."""
        port = self._ports.slurmdbd
        if port is None:
            return {}
        write_slurmdbd_conf(self.home / "etc", port)
        daemons = (mariadb(self._sandbox, self.home), slurmdbd(self._sandbox, self.home, port, ENVIRONMENT))
        for daemon in daemons:
            daemon.start()
        return {daemon.name: daemon for daemon in daemons}

    def _slurmrestd_daemon(self) -> Daemon:
        command = ["setpriv", "--reuid=slurmrest", "--regid=slurmrest", "--clear-groups", "slurmrestd"]
        # Up to 25.05 slurmrestd does not start without slurmdbd unless an option makes it serve slurmctld alone.
        served = "slurmctld,slurmdbd" if self.accounting else "slurmctld"
        command += ["-s", served, "-a", "rest_auth/jwt", f"127.0.0.1:{self._ports.slurmrestd}"]
        # SLURM_JWT: without it every request is refused. The other two halve answers and keep glibc's arenas small.
        environment = {**ENVIRONMENT, "SLURM_JWT": "daemon", "SLURMRESTD_JSON": "compact", "MALLOC_ARENA_MAX": "2"}
        return self._daemon("slurmrestd", command, environment=environment, ready=self._slurmrestd_answers)

    def _write_folders(self) -> None:
        for name in ("etc", "state", "spool", "run", "log"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        # Job users and slurmrestd pass through here to slurm.conf, whatever umask the lab was started with.
        for folder in (self.home, self.home / "etc", self.home / "spool"):
            folder.chmod(0o755)
        for name, size in (("slurm.key", 64), ("jwt.key", 32)):
            path = self.home / "etc" / name
            if not path.exists():
                path.touch(mode=0o600)
                path.write_bytes(os.urandom(size))
        for name, text in self._files.items():
            path = self.home / "etc" / name
            path.write_text(text)
            path.chmod(0o755)

    def _write_config(self) -> None:
        texts = {
            "slurm.conf": slurm_conf(self.nodes, self.external_nodes, self.partitions, self._ports, self._config),
            "gres.conf": gres_conf(self.nodes),
            "cgroup.conf": CGROUP_CONF,
        }
        for name, text in texts.items():
            (self.home / "etc" / name).write_text(text)
            (self.home / "etc" / name).chmod(0o644)

    def _slurmrestd_answers(self) -> bool:
        # Only that it speaks HTTP: it does so with slurmctld down, too.
        return self.rest("GET", "ping")[0] == 200

    def _slurmctld_answers(self) -> bool:
        status, answer = self.rest("GET", "ping")
        return status == 200 and any(ping.get("responding") for ping in answer["pings"])

    def _nodes_ready(self) -> bool:
        for slurmd in self._slurmds.values():
            if not slurmd.running and SOCKET_TAKEN in log_tail(slurmd.log) and slurmd.name not in self._relaunched:
                # Under load two that start together still meet at one socket; the one that lost may try once more.
                self._relaunched.add(slurmd.name)
                slurmd.launch()
            slurmd.wait_ready()  # one that has ended is reported at once, with its log
        status, answer = self.rest("GET", "nodes")
        if status != 200:
            return False
        states = {node["name"]: set(node["state"]) for node in answer["nodes"]}
        declared = [node.name for node in (*self.nodes, *self.external_nodes)]
        return all(name in states and not states[name] & SETTLING for name in declared)
