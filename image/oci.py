"""Write images and charts as OCI archives, without a container engine: the same input gives the same bytes.

An archive holds one image layout (opencontainers/image-spec, `image-layout.md`). `skopeo copy oci-archive:FILE`,
`podman load`, `ctr image import` and `oras cp --from-oci-layout` read it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
IMAGE_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
REF_NAME = "org.opencontainers.image.ref.name"
COMPRESSION = 6


@dataclass(frozen=True, slots=True)
class Blob:
    """One file of a layout. `tar_digest` is that of a layer before it is compressed."""

    media_type: str
    content: bytes
    tar_digest: str = ""

    @property
    def digest(self) -> str:
        """Return the digest, with its algorithm."""
        return digest_of(self.content)

    @property
    def descriptor(self) -> dict[str, Any]:
        """Return how a manifest names it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}


def digest_of(content: bytes) -> str:
    """Return the digest of some bytes, with its algorithm."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def as_json(value: object) -> bytes:
    """Return a value as JSON that depends on it alone."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def tree(root: Path, epoch: int, *, only: Iterable[str] = (), without: Iterable[str] = ()) -> bytes:
    """Return a folder as a tar archive whose files belong to root and have one time.

    `only` and `without` are folders below `root`; their parents are in both.
    """
    wanted, skipped = [Path(one) for one in only], [Path(one) for one in without]

    def taken(path: Path) -> bool:
        if any(path.is_relative_to(one) for one in skipped):
            return False
        return not wanted or any(path.is_relative_to(one) or one.is_relative_to(path) for one in wanted)

    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            if not taken(name):
                continue
            entry = tar.gettarinfo(path, name.as_posix())
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            if entry.islnk():  # a second name of a file that was packed before: each gets its own bytes
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            if entry.isreg():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
    return written.getvalue()


def files_in_tar(found: Mapping[str, bytes], epoch: int, mode: int = 0o644) -> bytes:
    """Return these files, by name, as a tar archive. All get the time `epoch` and the permissions `mode`."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(found.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def compressed(content: bytes) -> bytes:
    """Return the bytes in gzip, without a time."""
    return gzip.compress(content, COMPRESSION, mtime=0)


def layer(tar: bytes) -> Blob:
    """Return a tar archive as a layer of an image."""
    return Blob(IMAGE_LAYER, compressed(tar), digest_of(tar))


def settings_of(dockerfile: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the part `config` of an image from the last stage of a Dockerfile, which stays the only source of it."""
    joined = re.sub(r"\\\n\s*", " ", dockerfile)
    stage = joined.rsplit("\nFROM ", 1)[1]
    given = dict(re.findall(r"^ARG (\w+)=(.*)$", stage, re.MULTILINE)) | dict(arguments)

    def pairs(name: str) -> dict[str, str]:
        lines = re.findall(rf"^{name} (.+)$", stage, re.MULTILINE)
        found = dict(word.split("=", 1) for line in lines for word in shlex.split(line))
        return {key: re.sub(r"\$\{(\w+)\}", lambda one: given.get(one[1], ""), text) for key, text in found.items()}

    def one(name: str) -> str:
        (found,) = re.findall(rf"^{name} (.+)$", stage, re.MULTILINE)
        return str(found)

    return {
        "User": one("USER"),
        "Env": [f"{key}={text}" for key, text in pairs("ENV").items()],
        "Entrypoint": json.loads(one("ENTRYPOINT")),
        "Cmd": json.loads(one("CMD")),
        "Labels": {key: text for key, text in pairs("LABEL").items() if text},
    }


def image(layers: Iterable[Blob], settings: Mapping[str, Any], *, machine: str, created: str, name: str) -> bytes:
    """Return an archive with one image. `name` is its reference, such as `slurm-extender:0.1.0`."""
    found = list(layers)
    config = {
        "architecture": machine,
        "os": "linux",
        "created": created,
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [one.tar_digest for one in found]},
        "history": [{"created": created, "created_by": "image/release.py"} for _ in found],
    }
    return _archive(Blob(IMAGE_CONFIG, as_json(config)), found, {}, name, {"architecture": machine, "os": "linux"})


def chart(packed: bytes, metadata: Mapping[str, Any]) -> bytes:
    """Return an archive with one chart. `packed` is what `helm package` writes, `metadata` its Chart.yaml."""
    annotations = {
        "org.opencontainers.image.title": str(metadata["name"]),
        "org.opencontainers.image.version": str(metadata["version"]),
        "org.opencontainers.image.description": str(metadata["description"]),
    }
    config = Blob(CHART_CONFIG, as_json(metadata))
    return _archive(config, [Blob(CHART_LAYER, packed)], annotations, str(metadata["version"]), {})


def _archive(
    config: Blob, layers: list[Blob], annotations: Mapping[str, str], name: str, platform: Mapping[str, str]
) -> bytes:
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor,
        "layers": [one.descriptor for one in layers],
        **({"annotations": annotations} if annotations else {}),
    }
    top = Blob(MANIFEST, as_json(manifest))
    entry = {**top.descriptor, "annotations": {REF_NAME: name}, **({"platform": platform} if platform else {})}
    files = {
        "oci-layout": as_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}),
        **{f"blobs/{blob.digest.replace(':', '/')}": blob.content for blob in (config, top, *layers)},
    }
    return files_in_tar(files, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
