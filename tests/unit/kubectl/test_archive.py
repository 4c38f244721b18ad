"""`kubectl slurm` as one file runs without any package of the machine, and the same input gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from image.plugin import archive, build
from tests.builders.kubectl_program import a_pod
from tests.builders.plain_api import plain_api

BARE = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
LARGEST = 12 * 2**20


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build(out, "1.2.3", "https://example.org/there/")
    return out


def program(dist: Path) -> Path:
    [found] = [path for path in dist.iterdir() if path.suffix not in {".gz", ".yaml"}]
    return found


def run(path: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": str(home), "PATH": "/nonexistent"}
    return subprocess.run([BARE, "-I", path, *words], env=environ, capture_output=True, text=True, check=False)


def test_it_lists_pods_without_any_package_of_the_machine(dist: Path, tmp_path: Path) -> None:
    with plain_api() as api:
        api.pods = [a_pod("web", why="Slurm job 7 waits: (Priority).")]
        for _ in range(2):  # unpacked, then found
            said = run(program(dist), tmp_path, "why", "--server", api.url, "--token", "t")
            assert said.stdout == "default/web: Slurm job 7 waits: (Priority).\n"
            assert "Traceback" not in said.stderr
    [cache] = (tmp_path / ".cache/kubectl-slurm").iterdir()
    assert (tmp_path / ".cache/kubectl-slurm").stat().st_mode & 0o777 == 0o700
    assert (cache / "kubectl_slurm/program.py").is_file()


def test_it_says_which_program_has_the_doctor(dist: Path, tmp_path: Path) -> None:
    said = run(program(dist), tmp_path, "doctor")
    assert said.returncode == 1
    assert "use slurm-extender doctor" in said.stderr


def test_its_name_for_completions_offers_commands(dist: Path, tmp_path: Path) -> None:
    name = tmp_path / "kubectl_complete-slurm"
    name.write_bytes(program(dist).read_bytes())
    assert "queue" in run(name, tmp_path, "qu").stdout


def test_it_is_light_and_reproducible(dist: Path) -> None:
    content = program(dist).read_bytes()
    assert len(content) < LARGEST
    assert archive() == content


def test_the_manifest_of_krew_names_the_archive_and_its_files(dist: Path) -> None:
    manifest = yaml.safe_load((dist / "krew-slurm.yaml").read_text(encoding="utf-8"))
    [platform] = manifest["spec"]["platforms"]
    assert manifest["spec"]["version"] == "v1.2.3"
    packed = dist / platform["uri"].removeprefix("https://example.org/there/")
    assert platform["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    with tarfile.open(packed) as tar:
        assert sorted(tar.getnames()) == sorted(one["from"] for one in platform["files"])
        assert platform["bin"] in tar.getnames()
    assert json.dumps(manifest).isascii()
