"""What a release holds: archives that other tools can check, the same bytes each time, and no more than is allowed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender import __version__
from image import oci, release
from image.assemble import ELF, elf_files
from image.release import INSIDE, ReleaseError, checksums, image_archive, packed_chart, without_scripts
from image.sbom import System, installed_in, locked, sbom, system_in
from tests.builders.kustomize import ROOT

CHART = ROOT / "manifests" / "chart"
EPOCH = 1_700_000_000


def unpacked(tar: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        return {one.name: opened.extractfile(one).read() for one in opened if one.isfile()}  # type: ignore[union-attr]


def blob(found: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    content = found[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert descriptor["size"] == len(content)
    return content


def manifest_of(archive: bytes) -> tuple[dict[str, bytes], dict[str, Any], dict[str, Any]]:
    found = unpacked(archive)
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(found["index.json"])["manifests"]
    return found, entry, json.loads(blob(found, entry))


def small_root(out: Path) -> Path:
    """Make two small folders in place of an interpreter and its packages."""
    here = out / INSIDE.relative_to("/")
    for path, text in ((out / "usr/lib/python.so", "elf"), (here / "lib/one.py", "x = 1\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (here / "python").symlink_to("/usr/bin/python3")
    return out


def test_the_image_has_the_settings_of_the_dockerfile_and_two_layers(tmp_path: Path) -> None:
    found, entry, manifest = manifest_of(image_archive(small_root(tmp_path), "0.1.0", "abc", EPOCH))
    assert entry["annotations"][oci.REF_NAME] == "slurm-extender:0.1.0"
    config = json.loads(blob(found, manifest["config"]))
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == [f"{INSIDE}/bin/python", "-m", "extender"]
    assert f"PATH={INSIDE}/bin" in config["config"]["Env"]
    labels = config["config"]["Labels"]
    assert (labels["org.opencontainers.image.version"], labels["org.opencontainers.image.revision"]) == ("0.1.0", "abc")
    assert "org.opencontainers.image.base.digest" not in labels
    names = []
    for descriptor, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        tar = gzip.decompress(blob(found, descriptor))
        assert diff_id == f"sha256:{hashlib.sha256(tar).hexdigest()}"
        with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
            names.append({one.name for one in opened if not one.isdir()})
            assert {(one.uid, one.gid, one.mtime) for one in opened} == {(0, 0, EPOCH)}
    assert names == [{"usr/lib/python.so"}, {"opt/slurm-extender/lib/one.py", "opt/slurm-extender/python"}]


def test_the_same_root_gives_the_same_image_to_the_byte(tmp_path: Path) -> None:
    made = [image_archive(small_root(tmp_path / name), "0.1.0", "abc", EPOCH) for name in ("first", "second")]
    assert made[0] == made[1]


def test_a_layer_that_is_too_large_ends_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert release.MOST_ADDED == 60 * 2**20
    monkeypatch.setattr(release, "MOST_ADDED", 10)
    with pytest.raises(ReleaseError, match="bytes; the most is 10"):
        image_archive(small_root(tmp_path), "0.1.0", "abc", EPOCH)


def test_an_environment_keeps_no_trace_of_where_it_was_built(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    record = packages / "uvicorn-1.dist-info" / "RECORD"
    record.parent.mkdir(parents=True)
    record.write_text("uvicorn/__init__.py,sha256=a,1\n../../../bin/uvicorn,sha256=b,2\n")
    (tmp_path / "bin").mkdir()
    for name in ("python", "python3", "uvicorn"):
        (tmp_path / "bin" / name).write_text("")
    without_scripts(tmp_path)
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == ["python", "python3"]
    assert record.read_text() == "uvicorn/__init__.py,sha256=a,1\n"


def test_the_chart_is_packed_as_helm_does_and_named_in_its_archive() -> None:
    packed = packed_chart(CHART, EPOCH)
    assert packed == packed_chart(CHART, EPOCH)
    files = unpacked(gzip.decompress(packed))
    assert yaml.safe_load(files["slurm-extender/Chart.yaml"])["version"] == __version__
    assert {"slurm-extender/values.yaml", "slurm-extender/templates/extender.yaml"} <= set(files)
    metadata = yaml.safe_load((CHART / "Chart.yaml").read_text())
    found, entry, manifest = manifest_of(oci.chart(packed, metadata))
    assert entry["annotations"][oci.REF_NAME] == __version__
    assert manifest["config"]["mediaType"] == oci.CHART_CONFIG
    assert json.loads(blob(found, manifest["config"])) == metadata
    (only,) = manifest["layers"]
    assert (only["mediaType"], blob(found, only)) == (oci.CHART_LAYER, packed)


def test_a_symbolic_link_in_the_chart_ends_the_release(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").symlink_to("elsewhere.yaml")
    with pytest.raises(ReleaseError, match="symbolic link"):
        packed_chart(tmp_path, EPOCH)


def test_the_list_of_packages_is_that_of_the_lock() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE)
    packages = locked(lock)
    assert [(one.name, one.version) for one in packages] == [(name.lower(), version) for name, version in pinned]
    assert all(one.hashes for one in packages)
    here = installed_in(Path(folder) for folder in sys.path if folder.endswith("site-packages"))
    document = sbom("0.1.0", lock, here, System("3.13.1", {}), created="2026-01-01T00:00:00Z")
    assert document == sbom("0.1.0", lock, here, System("3.13.1", {}), created="2026-01-01T00:00:00Z")
    listed = {one["name"]: one for one in document["components"] if one["type"] == "library"}
    assert {"fastapi", "kubernetes", "pydantic"} <= set(listed)
    assert all(one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in listed.values())
    assert len(listed) > 20


def test_the_list_of_the_image_has_the_interpreter_and_every_library_of_the_system(tmp_path: Path) -> None:
    library, package = tmp_path / "lib" / "libz.so", tmp_path / "opt" / "slurm-extender" / "own.so"
    for path in (library, package):
        path.parent.mkdir(parents=True)
        path.write_bytes(ELF + path.name.encode())
    (tmp_path / "lib" / "text.py").write_text("pass")
    system = system_in(tmp_path, "3.13.1", elf_files(tmp_path), without=package.parent)
    document = sbom("0.1.0", "", {}, system, created="2026-01-01T00:00:00Z")
    assert [(one["type"], one["name"]) for one in document["components"]] == [
        ("platform", "cpython"),
        ("file", "/lib/libz.so"),
    ]
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    assert document["components"][1]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert document["dependencies"][0]["dependsOn"] == ["pkg:generic/cpython@3.13.1", "file:/lib/libz.so"]


def test_checksums_are_those_of_sha256sum_and_leave_themselves_out(tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_bytes(b"b")
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "SHA256SUMS").write_text("old")
    lines = [f"{hashlib.sha256(text).hexdigest()}  {name}" for name, text in (("a.whl", b"a"), ("b.tar", b"b"))]
    assert checksums(tmp_path) == "\n".join(lines) + "\n"
