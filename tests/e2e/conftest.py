"""Sites for the end-to-end tests: one for each release of Slurm, shared by all tests; and a stage for each test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from lab.build_slurm import RELEASES
from lab.site import Site
from tests.builders.stage import Stage

EXTERNAL_FROM = (25, 5)
CONFIG: dict[str, dict[str, Any]] = {
    "slurm": {
        "killWait": "10s",
        "sendUserSignal": True,
        "defaultPartition": "batch",
        "users": [{"name": "root", "uid": 0, "gid": 0}, {"name": "alice", "uid": 2001, "gid": 2001}],
    },
    "jobs": {"allow": ["user-id", "group-id", "priority"], "gpuTypes": {"H100": "h100"}},
    "hooks": {"wait": "4s"},
}
_numbers = count(1)


def modes_of(release: str) -> tuple[str, ...]:
    """The modes of placeholders that a release of Slurm can have."""
    external = tuple(int(part) for part in release.split(".")) >= EXTERNAL_FROM
    return ("batch", "allocation", *(["external"] if external else []), "auto")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "modes(*names, slow=()): run in these modes of placeholders only, where there are such; those in `slow`, named "
        "<release>, <mode> or <release>-<mode>, belong to `make prove`",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test once for each release, and those with a `stage` once for each mode, or for those marked."""
    if "stage" in metafunc.fixturenames:
        said = metafunc.definition.get_closest_marker("modes")
        only, slow = (said.args, said.kwargs.get("slow", ())) if said else ((), ())
        cases = [
            pytest.param(release, mode, marks=_marks(release, mode, slow), id=f"{release}-{mode}")
            for release in RELEASES
            for mode in modes_of(release)
            if not only or mode in only
        ]
        metafunc.parametrize(("site", "mode"), cases, indirect=True, scope="session")
    elif "site" in metafunc.fixturenames:
        sites = [pytest.param(release, marks=pytest.mark.lab) for release in RELEASES]
        metafunc.parametrize("site", sites, indirect=True, scope="session")


def _marks(release: str, mode: str, slow: Sequence[str]) -> list[pytest.MarkDecorator]:
    late = {release, mode, f"{release}-{mode}"} & set(slow)
    return [pytest.mark.lab, *([pytest.mark.slow] if late else [])]


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with one release of Slurm."""
    workdir = tmp_path_factory.mktemp("site")
    with Site(request.param, config=CONFIG, workdir=workdir) as found:
        yield found


@pytest.fixture(scope="session")
def mode(request: pytest.FixtureRequest) -> str:
    """A mode of placeholders."""
    found: str = request.param
    return found


@pytest.fixture
def stage(site: Site, mode: str) -> Iterator[Stage]:
    """A clean place for one test, and the proof afterwards that it is clean again."""
    found = Stage(site, mode, site.namespace(f"e2e-{next(_numbers)}"))
    yield found
    found.finish()
