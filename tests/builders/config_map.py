"""A ConfigMap in a Pod, as kubelet lays it out and swaps it (`pkg/volume/util/atomic_writer.go`)."""

from __future__ import annotations

import shutil
from pathlib import Path


class MountedConfigMap:
    """Mount one key of a ConfigMap as the file `file` under `folder`."""

    def __init__(self, folder: Path, key: str) -> None:
        self.file = folder / key
        self._folder = folder
        self._written = 0

    def holds(self, text: str) -> None:
        """Write everything into a new directory, and swap it in by one rename; the old one goes."""
        data, fresh = self._folder / "..data", self._folder / "..data_tmp"
        old = data.readlink() if data.is_symlink() else None
        self._written += 1
        stamped = self._folder / f"..2026_01_01_00_00_{self._written:02}.123456789"
        stamped.mkdir(parents=True)
        (stamped / self.file.name).write_text(text)
        fresh.symlink_to(stamped.name)
        fresh.rename(data)
        if old is None:
            self.file.symlink_to(f"..data/{self.file.name}")
        else:
            shutil.rmtree(self._folder / old)

    def loses_its_key(self) -> None:
        """Remove the target of the link."""
        (self._folder / "..data" / self.file.name).unlink()
