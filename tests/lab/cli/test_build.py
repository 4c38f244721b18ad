"""`python -m lab build` builds the parts it is given, and reports the seconds of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from lab import cli
from lab.build_kubernetes import proved_minors
from lab.build_parts import LabPart, lab_parts
from lab.errors import LabError


def fake(built: list[str], name: str, folder: Path, *, extra: bool = False) -> LabPart:
    def build() -> list[Path]:
        built.append(name)
        return [folder]

    return LabPart(f"the part {name}", build, extra)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    found: list[str] = []
    parts = {name: fake(found, name, tmp_path, extra=name == "node") for name in ("kwok", "helm", "node")}
    monkeypatch.setattr(cli, "lab_parts", lambda: parts)
    return found


def test_without_names_everything_is_built_but_what_only_kubelet_suites_need(built: list[str]) -> None:
    done = CliRunner().invoke(cli.cli, ["build"], catch_exceptions=False)
    assert built == ["kwok", "helm"]
    assert [part.split()[0] for part in done.output.splitlines()[-1].split("; ")] == ["kwok", "helm"]
    assert done.output.splitlines()[-1].endswith(" s")


def test_only_named_parts_are_built(built: list[str]) -> None:
    CliRunner().invoke(cli.cli, ["build", "node", "helm"], catch_exceptions=False)
    assert built == ["helm", "node"]


def test_an_unknown_part_is_refused_with_the_known_ones(built: list[str]) -> None:
    with pytest.raises(LabError, match="no part kubelet; there are kwok, helm, node"):
        CliRunner().invoke(cli.cli, ["build", "kubelet"], catch_exceptions=False)
    assert built == []


def test_the_parts_of_few_suites_are_the_only_ones_that_must_be_named() -> None:
    minors = [f"kubernetes-{minor}" for minor in proved_minors()]
    named = [*minors, "prometheus", "node", "controllers", "dra-example", "dra-driver-cpu"]
    assert [name for name, part in lab_parts().items() if part.extra] == named
