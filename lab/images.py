"""Container images without a registry or a build tool: OCI archives (image-spec v1) around one static busybox."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

BUSYBOX_IMAGE = "registry.lab/busybox:1"
PAUSE_IMAGE = "registry.lab/pause:1"
ABSENT_IMAGE = "registry.lab/absent:1"
"""No node has this image, and the registry does not exist: it cannot be pulled."""

APPLETS = """
awk cat chmod cp date dd df echo env false flock grep hostname id ip kill ls mkdir mv nc nproc ps pwd rm sed sh sleep
stat sync tail taskset test touch tr true uname wc wget
"""
_ACCOUNTS = {"etc/passwd": "root:x:0:0:root:/:/bin/sh\n", "etc/group": "root:x:0:\n"}
_CREATED = "2026-01-01T00:00:00Z"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def write_images(busybox: Path, folder: Path) -> None:
    """Write ``busybox.tar`` and ``pause.tar`` into ``folder``, each with the image that its constant names."""
    layer = _layer(busybox.read_bytes())
    _write_image(folder / "busybox.tar", BUSYBOX_IMAGE, layer, {"Cmd": ["sh"]})
    _write_image(folder / "pause.tar", PAUSE_IMAGE, layer, {"Entrypoint": ["/bin/sleep", "2147483647"]})


def _layer(busybox: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            _add(archive, name, kind=tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        _add(archive, "bin/busybox", busybox)
        for applet in APPLETS.split():
            _add(archive, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
        for name, text in _ACCOUNTS.items():
            _add(archive, name, text.encode(), mode=0o644)
    return out.getvalue()


def _add(
    archive: tarfile.TarFile,
    name: str,
    data: bytes = b"",
    *,
    kind: bytes = tarfile.REGTYPE,
    mode: int = 0o755,
    link: str = "",
) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.linkname, member.size = kind, mode, link, len(data)
    archive.addfile(member, io.BytesIO(data))


def _write_image(path: Path, reference: str, layer: bytes, config: dict[str, Any]) -> None:
    blobs = dict[str, bytes]()

    def blob(kind: str, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    stored = blob("application/vnd.oci.image.layer.v1.tar", layer)
    description = {
        "architecture": "amd64",
        "os": "linux",
        "created": _CREATED,
        "config": {"Env": ["PATH=/bin"], **config},
        "rootfs": {"type": "layers", "diff_ids": [stored["digest"]]},
        "history": [{"created": _CREATED, "created_by": "lab"}],
    }
    configured = blob("application/vnd.oci.image.config.v1+json", json.dumps(description).encode())
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": configured, "layers": [stored]}
    entry = blob(_MANIFEST, json.dumps(manifest).encode())
    entry["annotations"] = {"io.containerd.image.name": reference}
    entry["platform"] = {"architecture": "amd64", "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    }
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', mode=0o644)
        for digest, data in blobs.items():
            _add(archive, f"blobs/sha256/{digest}", data, mode=0o644)
        _add(archive, "index.json", json.dumps(index).encode(), mode=0o644)
