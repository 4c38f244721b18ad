"""The CPUs of a machine are read from sysfs as lscpu reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from extender.cli.program import main
from extender.domain.devices.cpu_order import order_of_lscpu
from extender.slurm.linux_cpus import cpu_table


def machine(folder: Path, rows: dict[int, tuple[str, str, str]], online: str) -> Path:
    """Write the files of a machine: core, socket and NUMA node of each CPU."""
    (folder / "online").write_text(f"{online}\n")
    for cpu, (core, socket, node) in rows.items():
        topology = folder / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{core}\n")
        (topology / "physical_package_id").write_text(f"{socket}\n")
        if node:
            (folder / f"cpu{cpu}" / f"node{node}").mkdir()
    return folder


def test_online_cpus_are_read_with_core_socket_and_numa_node(tmp_path: Path) -> None:
    rows = {0: ("0", "0", "0"), 1: ("1", "0", "0"), 2: ("0", "0", "0"), 3: ("1", "0", "0")}
    table = cpu_table(machine(tmp_path, rows, "0-3"))
    assert table == "0,0,0,0\n1,1,0,0\n2,0,0,0\n3,1,0,0"
    assert order_of_lscpu(table) == (0, 2, 1, 3)


def test_a_virtual_machine_without_sockets_and_numa_nodes_is_read(tmp_path: Path) -> None:
    assert cpu_table(machine(tmp_path, {0: ("0", "-1", ""), 2: ("1", "-1", "")}, "0,2")) == "0,0,0,\n2,1,0,"


def test_a_file_without_a_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="core_id"):
        cpu_table(machine(tmp_path, {0: ("x" * 100, "0", "0")}, "0"))


def test_this_machine_has_an_order() -> None:
    assert order_of_lscpu(cpu_table())


def test_the_command_prints_the_order_of_a_table() -> None:
    done = CliRunner().invoke(main, ["generate", "cpu-order", "--lscpu", "-"], input="# x\n0,0,0,0\n1,1,0,0\n2,0,0,0\n")
    assert (done.exit_code, done.output) == (0, "0,2,1\n")


def test_the_command_refuses_a_table_that_is_none() -> None:
    done = CliRunner().invoke(main, ["generate", "cpu-order", "--lscpu", "-"], input="hello\n")
    assert done.exit_code == 1
    assert "cannot be read" in done.output
