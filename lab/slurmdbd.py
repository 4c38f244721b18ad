"""slurmdbd, which keeps accounts, users, QOS and their limits in a MariaDB of the same sandbox."""

import socket
from collections.abc import Mapping
from pathlib import Path

from lab.mariadb import DATABASE, SOCKET
from lab.process import Daemon
from lab.sandbox import Sandbox
from lab.slurm_conf import HOME


def slurmdbd_conf(port: int) -> str:
    """Build slurmdbd.conf; keys as in man 5 slurmdbd.conf. With ``localhost`` libmariadb takes the Unix socket."""
    settings = {
        "AuthType": "auth/slurm",
        "AuthInfo": "use_client_ids",
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={HOME}/etc/jwt.key",
        "DbdHost": "localhost",
        "DbdPort": str(port),
        "SlurmUser": "root",
        "PidFile": f"{HOME}/run/slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "root",
        "StorageLoc": DATABASE,
        "LogTimeFormat": "iso8601_ms,format_stderr",
        "DebugLevel": "info",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def write_slurmdbd_conf(folder: Path, port: int) -> None:
    """Write it beside slurm.conf. slurmdbd does not start if others may read it: it can hold a password."""
    path = folder / "slurmdbd.conf"
    path.touch(mode=0o600)
    path.write_text(slurmdbd_conf(port))


def slurmdbd(sandbox: Sandbox, home: Path, port: int, environment: Mapping[str, str]) -> Daemon:
    """Return the daemon; it listens once its tables are made, and slurmctld does not start before it does."""

    def listens() -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True

    return Daemon(
        "slurmdbd",
        sandbox,
        ["slurmdbd", "-D"],
        log=home / "log" / "slurmdbd.log",
        environment={**environment, "MYSQL_UNIX_PORT": SOCKET},
        in_chroot=True,
        ready=listens,
    )
