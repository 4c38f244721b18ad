"""The manifests of docs/gangs.md can be copied: they are gangs, and variables read what the extender writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from docs.generate.gang_manifests import rewritten
from extender.cli import main
from extender.domain.wellknown import GANG_MEMBERS, GANG_NODES, GANG_RANK, JOB_ID, POD_SLURM_NODE

TOP = Path(__file__).parents[3]
PAGE = (TOP / "docs/gangs.md").read_text(encoding="utf-8")
MANIFESTS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLE = TOP / "examples/slurm-environment.yaml"
EXAMPLES_OF_GANGS = [
    (TOP / "examples" / name).read_text(encoding="utf-8") for name in ("gang-of-pods.yaml", "slurm-environment.yaml")
]
WRITTEN = {GANG_RANK, GANG_MEMBERS, GANG_NODES, JOB_ID, POD_SLURM_NODE}
KINDS = {
    "Job": ("Job train is a gang: 4 Pods get this one job, and start together", 4),
    "JobSet": ("JobSet parameter-server is a gang: 4 Pods get this one job, and start together", 4),
    "LeaderWorkerSet": ("2 gangs such as LeaderWorkerSet vllm, group 0: 2 Pods of each get one job", 2),
    "MPIJob": ("gang mpi is a gang: 4 Pods get this one job, and start together", 4),
}


def kind_of(text: str) -> str:
    return str(list(yaml.safe_load_all(text))[-1]["kind"])


def paths(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from (value for key, value in document.items() if key == "fieldPath")
        for value in document.values():
            yield from paths(value)
    elif isinstance(document, list):
        for value in document:
            yield from paths(value)


def test_the_page_has_a_manifest_of_each_kind() -> None:
    assert sorted(map(kind_of, MANIFESTS)) == sorted(KINDS)


@pytest.mark.parametrize("text", MANIFESTS, ids=kind_of)
def test_a_manifest_of_the_page_makes_gangs(text: str) -> None:
    result = CliRunner().invoke(main, ["translate", "-"], input=text)
    assert result.exit_code == 0, result.output
    said, size = KINDS[kind_of(text)]
    assert said in result.output
    (job,) = [one["job"] for one in yaml.safe_load_all(result.stdout) if one]
    assert job["members"] == size


def test_the_copies_on_the_page_are_the_examples() -> None:
    assert rewritten(PAGE) == PAGE, "docs/gangs.md is stale: python -m docs.generate.gang_manifests"


@pytest.mark.parametrize("text", [*MANIFESTS, *EXAMPLES_OF_GANGS])
def test_variables_are_read_from_annotations_that_the_extender_writes(text: str) -> None:
    for document in yaml.safe_load_all(text):
        for path in paths(document):
            found = re.fullmatch(r"metadata\.annotations\['(.+)'\]", path)
            assert found is not None, path
            assert found[1] in WRITTEN


def test_the_table_of_variables_is_that_of_the_example() -> None:
    (job,) = [one for one in yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")) if one["kind"] == "Job"]
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    rows = re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \| `?([^`|]+)`?", PAGE, re.MULTILINE)
    listed = {name: annotation for names, annotation in rows for name in re.findall(r"`([A-Z_]+)`", names)}
    assert {one["name"] for one in env} - {"MASTER_PORT"} == set(listed)
    for one in env:
        if "valueFrom" in one:
            assert listed[one["name"]] in one["valueFrom"]["fieldRef"]["fieldPath"]
