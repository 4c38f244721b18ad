"""etcd from the Debian chroot, without fsync: a lab's data is worth nothing after a crash of the machine."""

from pathlib import Path

from lab.ports import Ports
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox
from lab.slurm_conf import HOME


def etcd(sandbox: Sandbox, home: Path, ports: Ports) -> Daemon:
    """Return the daemon; its ``url`` is where clients connect, its data is in ``home``/etcd."""
    client, peer = (f"http://127.0.0.1:{ports.take()}" for _ in range(2))
    command = [
        "etcd",
        "--name=default",
        f"--data-dir={HOME}/etcd",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]
    log = home / "log" / "etcd.log"
    return Daemon(
        "etcd", sandbox, command, log=log, in_chroot=True, url=client, ready=lambda: answers_ok(f"{client}/health")
    )
