"""What is built for a first Pod: no more than it needs, each part with its seconds."""

from __future__ import annotations

from pathlib import Path

from lab.build_kubernetes import newest_minor
from lab.first_pod import build_parts, parts
from lab.kube import ETCD_FROM


def test_one_slurm_one_kubernetes_and_kwok_are_needed() -> None:
    names = list(parts(ETCD_FROM))
    assert names[0] == f"Slurm {ETCD_FROM}"
    assert len(names) == 3
    assert names[1].startswith(f"kubernetes-v{newest_minor()}.")
    assert names[2].startswith("kwok-")


def test_each_part_is_told_with_its_seconds() -> None:
    built: list[str] = []
    said: list[str] = []

    def build(name: str) -> Path:
        built.append(name)
        return Path(name)

    build_parts({"one": lambda: build("one"), "two": lambda: build("two")}, said.append)
    assert built == ["one", "two"]
    assert [line.split(",")[0] for line in said[::2]] == ["Building one", "Building two"]
    assert all(line.strip().endswith(" s") for line in said[1::2])
