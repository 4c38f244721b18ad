"""Prometheus itself takes the rules, and they fire when they should."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from lab.build_kubernetes import build, promtool_build
from tests.builders.kustomize import ROOT, documents

pytestmark = pytest.mark.lab

[RULE] = documents(ROOT / "manifests" / "components" / "alerts" / "rules.yaml")


@pytest.fixture(scope="module")
def promtool() -> str:
    return str(build(promtool_build()) / "promtool")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(RULE["spec"]), encoding="utf-8")
    return path


def judged(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_prometheus_takes_the_rules(promtool: str, rules: Path) -> None:
    judged(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(rules))


def test_the_rules_fire_when_they_should(promtool: str, rules: Path) -> None:
    tests = rules.with_name("alerts.yaml")
    tests.write_text((ROOT / "tests" / "manifests" / "alerts.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    judged(promtool, "test", "rules", str(tests))
