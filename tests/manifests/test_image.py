"""The image: what it is built from, and that what is put together runs without a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes
import pytest

from extender import __version__
from image.assemble import AssemblyError, assemble, check, entry_points, files
from tests.builders.kustomize import CORE, ROOT, documents, pod_spec

DEPLOYMENTS = ["slurm-extender", "slurm-scheduler"]

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())


def instructions(name: str) -> list[str]:
    return [line.split(" ", 1)[1] for line in DOCKERFILE.splitlines() if line.startswith(f"{name} ")]


def test_the_image_does_not_run_as_root() -> None:
    last_stage = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    [user] = re.findall(r"^USER (.+)$", last_stage, re.MULTILINE)
    uid = pod_spec("slurm-extender")["securityContext"]["runAsUser"]
    assert user == f"{uid}:{uid}"


def test_the_base_image_is_named_by_a_digest_that_the_builder_has_to_give() -> None:
    first = instructions("FROM")[0]
    assert first == "python:${PYTHON}@${PYTHON_DIGEST} AS environment"
    assert "PYTHON_DIGEST" in instructions("ARG"), "it has no default"
    assert 'org.opencontainers.image.base.digest="${PYTHON_DIGEST}"' in instructions("LABEL")[0]


@pytest.mark.parametrize(
    ("digest", "accepted"),
    [
        (f"sha256:{'0123456789abcdef' * 4}", True),
        ("", False),
        ("latest", False),
        (f"sha256:{'a' * 63}", False),
        (f"sha256:{'A' * 64}", False),
        (f"sha256:{'a' * 64}\n", False),
        (f"sha512:{'a' * 128}", False),
    ],
)
def test_the_build_ends_at_a_digest_that_is_none(digest: str, accepted: bool) -> None:
    [check_of_digest] = [line for line in instructions("RUN") if "PYTHON_DIGEST" in line]
    shell = shutil.which("sh")
    assert shell is not None
    run = subprocess.run(
        [shell, "-c", check_of_digest.replace("python -c", f"{sys.executable} -c", 1)],
        env={"PYTHON_DIGEST": digest},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode == 0) is accepted, run.stderr
    assert accepted or "PYTHON_DIGEST is no digest" in run.stderr


def test_the_documented_build_names_the_base_and_makes_a_list_of_what_the_image_holds() -> None:
    page = (ROOT / "docs" / "administration.md").read_text()
    [build] = re.findall(r"docker buildx build (?:[^\n]*\\\n)*[^\n]*", page)
    assert "PYTHON_DIGEST=" in build
    assert "--sbom=true" in build


def test_the_image_holds_what_the_lock_says() -> None:
    [install] = [line for line in instructions("RUN") if " install " in line]
    assert "--require-hashes" in install
    assert "--only-binary :all:" in install
    lock = (ROOT / "requirements.lock").read_text()
    packages = re.findall(r"^[a-z0-9][^ ;]*==", lock, re.MULTILINE | re.IGNORECASE)
    assert len(packages) > 20
    assert lock.count("--hash=sha256:") >= len(packages)


def test_the_last_stage_is_what_was_put_together_and_nothing_else() -> None:
    last_stage = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    assert last_stage.splitlines()[0] == "scratch"
    copies = re.findall(r"^(?:COPY|ADD) (.+)$", last_stage, re.MULTILINE)
    assert copies == ["--from=environment /image /"]
    assert not re.findall(r"^RUN ", last_stage, re.MULTILINE)


def test_the_image_starts_the_program_that_the_deployment_gives_arguments_to() -> None:
    assert instructions("ENTRYPOINT") == ['["/opt/slurm-extender/bin/python", "-m", "extender"]']
    [command] = instructions("CMD")
    assert command == '["serve", "--config=/etc/slurm-extender/config/config.yaml"]'
    assert pod_spec("slurm-extender")["containers"][0]["args"] == [
        "serve",
        "--config=/etc/slurm-extender/config/config.yaml",
    ]


def test_the_image_says_what_it_is() -> None:
    [label] = instructions("LABEL")
    for key in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{key}=" in label


def test_the_image_of_kube_scheduler_comes_from_its_registry_and_the_extenders_from_none() -> None:
    names = [container["image"] for deployment in DEPLOYMENTS for container in pod_spec(deployment)["containers"]]
    assert names == ["slurm-extender", "registry.k8s.io/kube-scheduler"]
    assert all("/" not in name.split(" ")[0] for name in instructions("FROM"))


def test_only_what_the_image_needs_is_sent_to_the_builder() -> None:
    allowed = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    first_stage = DOCKERFILE.rsplit("\nFROM ", 1)[0]
    assert {line.split()[0] for line in re.findall(r"^COPY (.+)$", first_stage, re.MULTILINE)} == allowed


def test_image_and_manifests_have_the_version_of_the_program() -> None:
    [kustomization] = documents(CORE / "kustomization.yaml")
    tags = {image["name"]: image["newTag"] for image in kustomization["images"]}
    assert tags["slurm-extender"] == __version__
    assert f"VERSION={__version__}" in instructions("ARG")
    for file in (ROOT / "manifests").glob("*/**/kustomization.yaml"):
        [kustomization] = documents(file)
        for image in kustomization.get("images", ()):
            assert image["name"] != "slurm-extender" or image["newTag"] == __version__
        for labels in kustomization.get("labels", ()):
            assert labels["pairs"]["app.kubernetes.io/version"] == __version__, file


def test_every_instruction_is_as_linters_want_it() -> None:
    """Of hadolint's rules those that this file could break."""
    for line in instructions("FROM"):
        assert ":latest" not in line  # DL3007
        assert ":" in line or line == "scratch"  # DL3006
    assert not instructions("ADD")  # DL3020
    assert not instructions("MAINTAINER")  # DL4000
    assert len(instructions("CMD")) == len(instructions("ENTRYPOINT")) == 1  # DL4003, DL4004
    for form in ("CMD", "ENTRYPOINT"):
        assert instructions(form)[0].startswith('["')  # DL3025
    for line in instructions("RUN"):
        assert not re.search(r"\b(sudo|apt|apt-get|curl|wget|cd)\b", line)  # DL3004, DL3027, DL3008, DL3003
    assert not re.search(r"^(EXPOSE|VOLUME|HEALTHCHECK)", DOCKERFILE, re.MULTILINE)


# What is put together.


def small(folder: Path) -> Path:
    """An environment with one module."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "lib" / "one.py").write_text("x = 1\n")
    return folder


def test_a_root_holds_the_interpreter_the_environment_and_no_shell(tmp_path: Path) -> None:
    environment, out = small(tmp_path / "environment"), tmp_path / "out"
    assemble(environment, ROOT / "pyproject.toml", out, compiled=False)
    here = out / environment.relative_to("/")
    assert (here / "lib" / "one.py").exists()
    programs = {path.name for path in (here / "bin").iterdir()}
    assert programs >= {"python", *entry_points(ROOT / "pyproject.toml")}
    assert "slurm-extender" in programs
    assert "kubectl-slurm" not in programs
    assert (here / "bin" / "slurm-extender").read_text().startswith(f"#!{environment}/bin/python\n")
    started = {path.name for path in files(out) if os.access(path, os.X_OK) and path.parent.name == "bin"}
    assert {name for name in started if not name.startswith("python")} == set(entry_points(ROOT / "pyproject.toml"))
    assert (out / "etc" / "passwd").read_text().endswith("/nonexistent\n")
    assert {int(path.stat().st_mtime) for path in files(out)} == {0}
    assert not list(out.rglob("site-packages/pip"))


PROGRAMS = """
import sys
from click.testing import CliRunner
from extender.cli import main
import extender.kube.connection, extender.server.process
assert not [name for name in sys.modules if name.startswith("kubernetes.") and ".models." in name]
for words in (["serve", "--help"], ["generate", "certificates", "--out", sys.argv[1]], ["doctor", "--help"]):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
"""


def test_the_root_has_no_generated_classes_of_the_kubernetes_package_and_its_commands_run(tmp_path: Path) -> None:
    environment, out = tmp_path / "environment", tmp_path / "out"
    shutil.copytree(Path(kubernetes.__file__).parent, small(environment) / "lib" / "kubernetes")
    assemble(environment, ROOT / "pyproject.toml", out, compiled=False)
    library = out / environment.relative_to("/") / "lib"
    for client in ("client", "aio/client"):
        for kind in ("api", "models"):
            assert [path.name for path in (library / "kubernetes" / client / kind).iterdir()] == ["__init__.py"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS, str(tmp_path / "certificates")],
        env={"PYTHONPATH": f"{library}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_same_input_gives_the_same_root_to_the_byte(tmp_path: Path) -> None:
    environment = small(tmp_path / "environment")
    made = []
    for name in ("first", "second"):
        assemble(environment, ROOT / "pyproject.toml", tmp_path / name)
        found = sorted((tmp_path / name).rglob("*"))
        stated = [(path.lstat().st_mode, path.lstat().st_mtime) for path in [tmp_path / name, *found]]
        texts = [path.read_bytes() for path in found if path.is_file() and not path.is_symlink()]
        made.append((stated, [str(path.relative_to(tmp_path / name)) for path in found], texts))
        assert any(path.suffix == ".pyc" for path in found)
        shutil.rmtree(tmp_path / name)
    assert made[0] == made[1]


@pytest.mark.parametrize("name", ["sh", "bash", "busybox", "pip"])
def test_a_shell_in_the_root_ends_the_build(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    (tmp_path / name).chmod(0o755)
    with pytest.raises(AssemblyError, match=name):
        check(tmp_path)


def test_a_program_with_the_rights_of_its_owner_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "su").write_text("")
    (tmp_path / "su").chmod(0o4755)
    with pytest.raises(AssemblyError, match="runs with the rights of its owner"):
        check(tmp_path)


def test_scripts_for_slurms_nodes_are_in_the_packages_that_are_copied() -> None:
    assert {path.name for path in (ROOT / "extender" / "slurm").glob("*.sh")} >= {
        "fence.sh",
        "placeholder.sh",
        "lock.sh",
    }


@pytest.mark.lab
def test_the_programs_run_in_the_root_as_an_unprivileged_user(tmp_path: Path) -> None:
    """With this machine's interpreter and packages in the place of the image's."""
    environment, out = Path(sys.prefix), tmp_path / "out"
    assemble(environment, ROOT / "pyproject.toml", out, compiled=False)
    [packages] = (out / environment.relative_to("/")).glob("lib/python3*/site-packages")
    for package in ("extender", "slurmclient"):
        shutil.copytree(ROOT / package, packages / package, ignore=shutil.ignore_patterns("__pycache__"))

    def run(program: str, *words: str) -> str:
        inside = [str(environment / "bin" / program), *words]
        done = subprocess.run(
            [str(shutil.which("chroot")), "--userspec=65532:65532", str(out), *inside],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("slurm-extender", "version") == f"{__version__}\n"
    assert run("python", "-m", "extender", "version") == f"{__version__}\n"
    assert "PrologSlurmctld" in run("slurm-extender", "generate", "fence-script", "--hooks", "http://hooks:8000")
    assert "every certificate is valid" not in run("slurm-extender", "generate", "certificates", "--out", "/tmp/made")
    # All that serving imports.
    run("python", "-c", "import extender.server.process, ssl, uvloop; ssl.create_default_context()")
    shutil.rmtree(out)
    assert not [
        path for path in files(out) if path.name in {"sh", "bash", "dash", "busybox"} and os.access(path, os.X_OK)
    ]
