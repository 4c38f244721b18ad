"""Images of the lab are what containerd imports: an index that leads by digest to every blob."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab.images import BUSYBOX_IMAGE, PAUSE_IMAGE, write_images


def content(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened if member.isfile()}  # type: ignore[union-attr]


def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    digest = descriptor["digest"].removeprefix("sha256:")
    data = files[f"blobs/sha256/{digest}"]
    assert hashlib.sha256(data).hexdigest() == digest
    assert len(data) == descriptor["size"]
    return data


@pytest.mark.parametrize(("name", "reference"), [("busybox", BUSYBOX_IMAGE), ("pause", PAUSE_IMAGE)])
def test_an_image_leads_from_its_index_to_its_program(tmp_path: Path, name: str, reference: str) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    write_images(program, tmp_path)
    files = content(tmp_path / f"{name}.tar")
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": reference}
    manifest = json.loads(blob(files, entry))
    config = json.loads(blob(files, manifest["config"]))
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    with tarfile.open(fileobj=io.BytesIO(blob(files, layer))) as root:
        found = root.extractfile("bin/busybox")
        assert found is not None
        assert found.read() == b"\x7fELF"
        assert root.getmember("bin/sh").linkname == "busybox"


def test_images_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    made = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        write_images(program, folder)
        made.append((folder / "busybox.tar").read_bytes())
    assert made[0] == made[1]
