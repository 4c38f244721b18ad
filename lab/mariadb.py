"""MariaDB for slurmdbd, from the Debian chroot: a Unix socket, no port; it survives a kill, no crash of the machine."""

from pathlib import Path

from lab.process import Daemon
from lab.sandbox import Sandbox
from lab.slurm_conf import HOME

SOCKET = f"{HOME}/run/mariadb.sock"
"""Where slurmdbd connects, as the cluster sees it."""

DATABASE = "slurm_acct_db"
"""slurmdbd's. It would make it itself, but that of sid asks for TLS then, and sleeps five seconds when it gets none."""

OPTIONS = (
    "--no-defaults",
    "--user=root",
    f"--datadir={HOME}/mariadb",
    # Every user of the socket is root of this sandbox anyway.
    "--skip-grant-tables",
    "--skip-networking",
    "--skip-log-bin",
    # Since 11.4 the server makes itself a certificate at every start, which takes seconds.
    "--skip-ssl",
    "--innodb-flush-method=nosync",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-doublewrite=0",
    # The defaults make files of 200 MB, and slurmdbd complains of a lock wait that is shorter than this.
    "--innodb-log-file-size=4M",
    "--innodb-undo-tablespaces=0",
    "--aria-log-file-size=8M",
    "--innodb-buffer-pool-size=32M",
    "--innodb-lock-wait-timeout=900",
    # On by default since 11.8; slurmdbd ends at the first write that meets another one under it, and says so.
    "--innodb-snapshot-isolation=OFF",
)

# What mariadb-install-db does, without the helper programs of the server's other packages. Bootstrap takes one
# statement a line; the Debian script leaves the authentication of root to a variable.
_SYSTEM_TABLES = f"""
mkdir {HOME}/mariadb
cd /usr/share/mariadb
{{
  printf 'create database {DATABASE};\\ncreate database mysql;\\nuse mysql;\\n'
  sed 's/@auth_root_socket/NULL/' mariadb_system_tables.sql mariadb_system_tables_data.sql
}} | mariadbd {" ".join(OPTIONS)} --bootstrap
"""


def mariadb(sandbox: Sandbox, home: Path) -> Daemon:
    """Return the daemon; its data is in ``home``/mariadb and is made before the first start."""
    socket = home / "run" / "mariadb.sock"

    def prepare() -> None:
        # What a killed server left behind would look like one that listens.
        socket.unlink(missing_ok=True)
        if not (home / "mariadb").exists():
            sandbox.run(["/bin/sh", "-euc", _SYSTEM_TABLES])

    command = ["mariadbd", *OPTIONS, f"--socket={SOCKET}"]
    log = home / "log" / "mariadbd.log"
    return Daemon("mariadbd", sandbox, command, log=log, in_chroot=True, ready=socket.exists, prepare=prepare)
