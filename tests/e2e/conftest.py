"""Sites for the end-to-end tests, shared by all of them, and a stage for each test.

There is one for each release of Slurm, with the newest Kubernetes of the lab. And there is one for each older
Kubernetes, for tests that are marked `every_kubernetes`: what differs between minors, and what nobody can do without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lab.build_kubernetes import newest_minor, older_minors, proved_minors
from lab.build_slurm import RELEASES
from lab.site import Site
from tests.builders.relays_of_a_site import RelayPair, relays
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
    "gangs": {"unfenced": "allow"},
}
LONGEST = (
    "test_fences",
    "test_registered_nodes",
    "test_accounting",
    "test_node_states",
    "test_node_causes",
    "test_outages",
    "test_two_replicas",
    "test_crash",
    "test_rolling_update",
    "test_foreign_pods",
    "test_crash_of_commands",
    "test_pod_ends",
    "test_refusals",
)
"""The files that take more than half a minute of waiting: first those with a site of their own, so that the one of all
others is not up beside it; then the longest."""
BESIDE_OLDER = next(iter(RELEASES))
"""The release of Slurm beside an older Kubernetes."""

OLDER = (pytest.mark.lab, pytest.mark.older_kubernetes)
PROVED = (pytest.mark.lab, pytest.mark.slow, pytest.mark.proved_kubernetes)
"""Marks of the tests on a Kubernetes that only `make prove-kubernetes` builds."""

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a site consists of. Of an older Kubernetes it is logged what its API server is asked."""

    slurm: str
    kubernetes: str = newest_minor()
    audit: bool = False


def older_parts() -> list[Parts]:
    """A site for each older Kubernetes."""
    return [Parts(BESIDE_OLDER, minor, audit=True) for minor in older_minors()]


def proved_parts() -> list[Parts]:
    """A site for each Kubernetes that only `make prove-kubernetes` builds."""
    return [Parts(BESIDE_OLDER, minor, audit=True) for minor in proved_minors()]


def modes_of(release: str) -> tuple[str, ...]:
    """The modes of placeholders that a release of Slurm can have."""
    external = tuple(int(part) for part in release.split(".")) >= EXTERNAL_FROM
    return ("batch", "allocation", *(["external"] if external else []), "auto")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "modes(*names, slow=()): run in these modes of placeholders only, where there are such; those in `slow`, named "
        "<release>, <mode>, <release>-<mode> or, for an older Kubernetes, older, belong to `make prove`",
    )
    config.addinivalue_line("markers", "every_kubernetes: run with the older minors of Kubernetes too, in one mode")
    config.addinivalue_line(
        "markers", "proved_on_each_kubernetes: run by `make prove-kubernetes` on the minors that it alone builds"
    )
    config.addinivalue_line(
        "markers",
        "audited: run where it is logged what the API server is asked; with the newest Kubernetes by `make prove`",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test once for each release, and those with a `stage` once for each mode, or for those marked."""
    definition = metafunc.definition
    parts = [Parts(release) for release in RELEASES]
    every = definition.get_closest_marker("every_kubernetes") is not None
    older = older_parts() if every else []
    proved = proved_parts() if every or definition.get_closest_marker("proved_on_each_kubernetes") else []
    late: list[pytest.MarkDecorator] = []
    if definition.get_closest_marker("audited"):
        parts, older, late = [Parts(BESIDE_OLDER, audit=True)], older_parts(), [pytest.mark.slow]
        proved = proved_parts()
    said = definition.get_closest_marker("modes")
    only, slow = (said.args, said.kwargs.get("slow", ())) if said else ((), ())
    if idle := set(slow) - _names_of_cases(only):
        raise pytest.UsageError(f"{definition.nodeid}: slow={sorted(idle)} names no case of this test")
    if "stage" in metafunc.fixturenames:
        cases = [
            pytest.param(one, mode, marks=[*_marks(one.slurm, mode, slow), *late], id=f"{one.slurm}-{mode}")
            for one in parts
            for mode in modes_of(one.slurm)
            if not only or mode in only
        ]
        cases += [
            pytest.param(one, mode, marks=marks, id=f"{one.slurm}-{mode}-{one.kubernetes}")
            for some, marks in ((older, _marks_of_older(slow)), (proved, PROVED))
            for one in some
            for mode in (only or modes_of(one.slurm))[:1]
        ]
        metafunc.parametrize(("site", "mode"), cases, indirect=True, scope="session")
    elif "site" in metafunc.fixturenames:
        sites = [pytest.param(one, marks=[*_marks(one.slurm, "", slow), *late], id=one.slurm) for one in parts]
        sites += [pytest.param(one, marks=_marks_of_older(slow), id=f"{one.slurm}-{one.kubernetes}") for one in older]
        sites += [pytest.param(one, marks=PROVED, id=f"{one.slurm}-{one.kubernetes}") for one in proved]
        metafunc.parametrize("site", sites, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole sites come after all else: one that is up costs something while nobody asks it anything.

    Of their tests what takes longest comes first: processes that take up one file after the other then end at about
    one time. Sites with an older Kubernetes come last, so that each is started once.
    """
    here = Path(__file__).parent
    rank = {name: number for number, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        of_a_site = item.path.parent == here
        longest = rank.get(item.path.stem, len(rank)) if of_a_site else 0
        return item.get_closest_marker("older_kubernetes") is not None, of_a_site, longest

    items.sort(key=place)


def _names_of_cases(only: Sequence[str]) -> set[str]:
    """Return what `slow` may name of a test that runs in these modes, or in all."""
    cases = [(release, mode) for release in RELEASES for mode in modes_of(release) if not only or mode in only]
    return {"older", *RELEASES, *(mode for _, mode in cases), *(f"{release}-{mode}" for release, mode in cases)}


def _marks(release: str, mode: str, slow: Sequence[str]) -> list[pytest.MarkDecorator]:
    late = {release, mode, f"{release}-{mode}"} & set(slow)
    return [pytest.mark.lab, *([pytest.mark.slow] if late else [])]


def _marks_of_older(slow: Sequence[str]) -> list[pytest.MarkDecorator]:
    return [*OLDER, *([pytest.mark.slow] if "older" in slow else [])]


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of these parts."""
    parts: Parts = request.param
    workdir = tmp_path_factory.mktemp("site")
    with Site(parts.slurm, config=CONFIG, kubernetes=parts.kubernetes, audit=parts.audit, workdir=workdir) as found:
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


@pytest.fixture(scope="module")
def relay_pair(site: Site) -> Iterator[RelayPair]:
    """Relays for an extender, or for the replicas, of this site."""
    with relays(site) as found:
        yield found


@pytest.fixture
def relayed(stage: Stage, relay_pair: RelayPair) -> Iterator[Stage]:
    """The site's own extender, behind the relays."""
    stage.site.reconfigure(relay_pair.settings)
    try:
        yield stage
        stage.finish()
    finally:
        relay_pair.disarm()
        stage.site.reconfigure()
