"""What is installed by which name: the service alone, the simulator and the kubectl plugin by extras of their own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from extender import __version__
from extender.cli import main, program

ROOT = Path(__file__).parents[3]


def wheel(folder: Path, out: Path) -> set[str]:
    """Build the wheel of a pyproject.toml; the top folders that it installs."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [made] = out.glob("*.whl")
    with zipfile.ZipFile(made) as found:
        return {name.partition("/")[0] for name in found.namelist() if ".dist-info/" not in name}


@pytest.mark.parametrize(
    ("extra", "package"), [("simulator", "slurm-extender-simulator"), ("kubectl", "kubectl-slurm")]
)
def test_an_extra_installs_the_package_of_the_same_version(extra: str, package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"][extra] == [f"{package}=={__version__}"]


def test_the_wheel_of_the_service_has_no_simulator(tmp_path: Path) -> None:
    assert wheel(ROOT, tmp_path) == {"extender", "slurmclient"}


def test_the_wheel_of_the_simulator_has_nothing_else(tmp_path: Path) -> None:
    assert wheel(ROOT / "packaging/simulator", tmp_path) == {"simulator"}


def test_the_wheel_of_the_plugin_has_nothing_else(tmp_path: Path) -> None:
    assert wheel(ROOT / "packaging/kubectl", tmp_path) == {"kubectl_slurm"}


@pytest.mark.parametrize("command", ["demo", "simulate"])
def test_where_the_simulator_is_not_installed_its_commands_say_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(program, "find_spec", lambda _name: None)
    said = CliRunner().invoke(main, [command])
    assert said.exit_code == 1
    assert 'pip install "slurm-extender[simulator]"' in said.output
    assert command not in CliRunner().invoke(main, ["--help"]).output


def test_no_command_of_the_service_imports_the_simulator() -> None:
    text = "import sys; from extender.cli import main; main(['version'], standalone_mode=False)"
    command = [sys.executable, "-c", f"{text}; print('simulator' in sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
