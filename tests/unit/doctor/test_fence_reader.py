"""The doctor takes for a fence what the extender takes for one, and no other annotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.config.load import parse
from extender.doctor.fence_reader import FenceReader
from extender.doctor.gather.fences import read_fence_keys
from extender.domain.nodes.fence_evidence import FenceProofs, FenceScript
from extender.domain.views import NodeView
from extender.domain.wellknown import FENCE_EVIDENCE

EPILOG, PROLOG = FenceScript.EPILOG, FenceScript.PROLOG_SLURMCTLD
KEY, DAY, NOW = b"a key of the hooks", 86_400.0, 1_800_000_000.0
PROOFS = FenceProofs([KEY], "cluster", "slurm")
VERIFYING = FenceReader("slurm", DAY, PROOFS)
WITHOUT_KEY = FenceReader("slurm", DAY, trouble="hooks.keyFile is not set")
BOTH = pytest.mark.parametrize("reader", [VERIFYING, WITHOUT_KEY], ids=["with the key", "without it"])


def written(
    script: FenceScript = EPILOG, age_s: float = 0.0, *, proofs: FenceProofs = PROOFS, slurm_node: str = "s1"
) -> str:
    return proofs.written("uid-1", slurm_node, {script: NOW - age_s})


def is_fenced(reader: FenceReader, text: str, *, external: bool = False) -> bool:
    node = NodeView("n1", uid="uid-1", annotations={FENCE_EVIDENCE: text} if text else {})
    return reader.proven({"s1": "n1"}, {"n1": node}, {"s1"} if external else (), NOW) == {"s1"}


@BOTH
def test_a_call_is_evidence_until_it_expires(reader: FenceReader) -> None:
    assert is_fenced(reader, written())
    assert is_fenced(reader, written(age_s=DAY - 1))
    assert not is_fenced(reader, written(age_s=DAY))
    assert is_fenced(reader, written(age_s=-60)), "clocks differ a little"
    assert not is_fenced(reader, written(age_s=-61))


@BOTH
def test_on_nodes_without_slurmd_a_call_of_prologslurmctld_alone_is_evidence(reader: FenceReader) -> None:
    assert not is_fenced(reader, written(EPILOG), external=True)
    assert is_fenced(reader, written(PROLOG), external=True)
    assert is_fenced(reader, written(PROLOG))


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "slurm: v1",
        f"slurm: v1.{NOW:.0f}.0",
        f"slurm: v1.{NOW:.0f}.0.",
        f"slurm: v1.{NOW:.0f}.0.{'z' * 64}",
        written().replace("slurm: ", "other: "),
        written().replace("v1", "v2"),
        f"{written()}0",
    ],
)
def test_text_of_another_form_or_extender_is_no_evidence(reader: FenceReader, text: str) -> None:
    assert not is_fenced(reader, text)


def test_with_the_key_a_proof_that_is_not_of_this_node_cluster_and_key_is_no_evidence() -> None:
    assert not is_fenced(VERIFYING, written(proofs=FenceProofs([b"another key"], "cluster", "slurm")))
    assert not is_fenced(VERIFYING, written(proofs=FenceProofs([KEY], "another", "slurm")))
    assert not is_fenced(VERIFYING, written(slurm_node="s2"))


def test_a_slurm_node_whose_node_is_gone_has_no_evidence() -> None:
    assert VERIFYING.proven({"s1": "n1"}, {}, (), NOW) == frozenset()


async def reader_of(hooks: str, scheduler: str = "{clusterId: cluster}") -> FenceReader | None:
    head = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\n"
    config = parse(f"{head}slurm: {{token: t}}\nhooks: {hooks}\nscheduler: {scheduler}\n", "test")
    return await read_fence_keys(None, config)


async def test_the_key_file_of_the_hooks_verifies_evidence(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"a newer key of the hooks\n" + KEY + b"\n")
    reader = await reader_of(f"{{keyFile: {file}}}")
    assert reader is not None
    assert reader.trouble == ""
    assert is_fenced(reader, written())
    assert not is_fenced(reader, written(proofs=FenceProofs([b"another key"], "cluster", "slurm")))


async def test_without_a_key_or_the_id_of_the_cluster_no_proof_is_verified(tmp_path: Path) -> None:
    for hooks, scheduler, trouble in (
        (f"{{keyFile: {tmp_path}/none}}", "{clusterId: cluster}", f"key file {tmp_path}/none: No such file"),
        ("{}", "{clusterId: cluster}", "hooks.keyFile is not set"),
        ("{key: secret}", "{}", "the id of the cluster is not known"),
    ):
        reader = await reader_of(hooks, scheduler)
        assert reader is not None
        assert (reader.proofs, reader.trouble.startswith(trouble)) == (None, True), reader.trouble
        assert is_fenced(reader, written())


async def test_a_name_on_nodes_that_needs_the_id_of_the_cluster_is_not_guessed() -> None:
    assert await reader_of("{key: secret}", "{name: 'x.y/z'}") is None
