"""Store certificates in a folder: for users without access to Secrets, and for programs outside of a cluster.

Each Secret is a folder with a file for each key, so that `kubectl create secret generic NAME --from-file=DIR/NAME`
creates the Secret from it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from extender.certificates.plan import Data
from extender.certificates.secrets import StoredData


class Folder:
    """A folder, created if it does not exist. `locked` excludes other runs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def place(self, name: str) -> str:
        """Return the name for messages."""
        return str(self._path / name)

    async def read(self, name: str) -> StoredData:
        """Return the stored files. Raises OSError."""
        here = self._path / name
        return StoredData(_files(here)) if here.is_dir() else StoredData()

    async def write(self, name: str, before: StoredData, data: Data) -> None:
        """Write file by file; the next run replaces a pair that is incomplete. Raises OSError."""
        here = self._path / name
        _make(here)
        for key, value in data.items():
            if before.data.get(key) != value:
                _replace(here / key, value)
        for key in before.data.keys() - data.keys():
            (here / key).unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder, and wait for the lock. Raises OSError."""
        _make(self._path)
        handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _files(here: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in here.iterdir() if path.is_file() and not path.name.startswith(".")}


def _make(here: Path) -> None:
    here.mkdir(mode=0o700, parents=True, exist_ok=True)


def _replace(path: Path, value: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(value)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    fresh.replace(path)
