"""A kubelet learns the size of its machine from files: those of a pretended one."""

from __future__ import annotations

from pathlib import Path

from lab.cgroups import write_pretended_machine


def test_a_pretended_machine_has_its_cpus_and_its_memory(tmp_path: Path) -> None:
    write_pretended_machine(tmp_path / "machine", 16, 64_000)
    read = {name: (tmp_path / "machine" / name).read_text() for name in ("cpu/online", "node/node0/cpulist", "meminfo")}
    assert read["cpu/online"] == read["node/node0/cpulist"] == "0-15\n"
    assert f"MemTotal:  {64_000 * 1024} kB" in read["meminfo"]
    assert (tmp_path / "machine" / "cpuinfo").read_text().count("processor") == 16


def test_a_machine_that_shrank_has_no_cpu_left_of_the_larger_one(tmp_path: Path) -> None:
    write_pretended_machine(tmp_path / "machine", 4, 1000)
    write_pretended_machine(tmp_path / "machine", 2, 1000)
    assert sorted(path.name for path in (tmp_path / "machine" / "cpu").glob("cpu*")) == ["cpu0", "cpu1"]
