"""etcd from the Debian chroot, without fsync: a lab's data is worth nothing after a crash of the machine."""

import shutil
from itertools import count
from pathlib import Path

from lab.errors import LabError
from lab.ports import Ports
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox
from lab.slurm_conf import HOME

BUMP = 1_000_000_000
"""What etcd's documentation advises to add to the revision of a backup."""


class Etcd(Daemon):
    """The one member; ``url`` is where clients connect, its data is in ``home``/etcd."""

    def __init__(self, sandbox: Sandbox, home: Path, ports: Ports) -> None:
        client, self._peer = (f"http://127.0.0.1:{ports.take()}" for _ in range(2))
        command = [
            "etcd",
            "--name=default",
            f"--data-dir={HOME}/etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={self._peer}",
            f"--initial-advertise-peer-urls={self._peer}",
            f"--initial-cluster=default={self._peer}",
            "--log-level=warn",
        ]
        super().__init__(
            "etcd",
            sandbox,
            command,
            log=home / "log" / "etcd.log",
            in_chroot=True,
            url=client,
            ready=lambda: answers_ok(f"{client}/health"),
        )
        self._home = home
        self._snapshots = count(1)

    def save(self) -> str:
        """Run ``etcdctl snapshot save``; return the name of the snapshot, for :meth:`restore`."""
        name = f"etcd-{next(self._snapshots)}.snapshot"
        self._sandbox.run(["etcdctl", f"--endpoints={self.url}", "snapshot", "save", f"{HOME}/{name}"])
        return name

    def restore(self, snapshot: str, *, bump: bool = True) -> None:
        """Run ``etcdutl snapshot restore``; etcd must not run meanwhile.

        ``bump``, as its documentation advises for Kubernetes: revisions go on far beyond those that clients have seen,
        and all before are compacted, so that every watch is refused. Otherwise revisions are given out a second time.
        """
        if self.running:
            raise LabError("etcd runs: stop it, and the API server, before a snapshot is restored")
        shutil.rmtree(self._home / "etcd")
        self._sandbox.run(
            [
                *("etcdutl", "snapshot", "restore", f"{HOME}/{snapshot}", f"--data-dir={HOME}/etcd", "--name=default"),
                *(f"--initial-advertise-peer-urls={self._peer}", f"--initial-cluster=default={self._peer}"),
                *((f"--bump-revision={BUMP}", "--mark-compacted") if bump else ()),
            ]
        )
