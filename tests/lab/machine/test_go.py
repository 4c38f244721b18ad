"""A machine without what the lab needs is told what is missing."""

from pathlib import Path

import pytest

from lab.build_kubernetes import kubernetes_build, kubernetes_minors, proved_minors, required_version
from lab.errors import LabError
from lab.machine import go_directive, require_go


def test_a_missing_go_is_named_with_the_version_that_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module m\n\ngo 1.26.0\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"no `go` on PATH.*Go >= 1\.26\.0"):
        require_go(tmp_path / "go.mod")


def test_a_go_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module m\n\ngo 1.26.0\n")
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.25.9\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(LabError, match=r"go1\.25\.9; .*Go >= 1\.26\.0"):
        require_go(tmp_path / "go.mod")


def test_every_minor_has_a_module_that_pins_that_minor() -> None:
    assert "1.36" in kubernetes_minors()
    assert not set(proved_minors()) & set(kubernetes_minors())
    for minor in (*kubernetes_minors(), *proved_minors()):
        build = kubernetes_build(minor)
        assert required_version(build.module / "go.mod", "k8s.io/kubernetes").startswith(f"v{minor}.")
        assert go_directive(build.module / "go.mod") >= (1, 24)


def test_an_unknown_minor_is_refused_with_those_there_are() -> None:
    with pytest.raises(LabError, match=r"'9\.9'; there is one for .*1\.36"):
        kubernetes_build("9.9")
