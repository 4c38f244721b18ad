"""slurm.conf says what the caller said."""

import re
from dataclasses import replace

import pytest

from lab.errors import LabError
from lab.slurm_conf import Partition, SlurmNode, SlurmPorts, gpu_devices, gres_conf, slurm_conf

PORTS = SlurmPorts(20001, 20002, {"node-1": 20003, "node-2": 20004})
NODE = SlurmNode("node-1", cpus=64, memory_mb=512000, gpus=8, gpu_type="h100", features=("ib",))


def fields(text: str, key: str) -> dict[str, str]:
    [line] = [line for line in text.splitlines() if line.startswith(f"{key} ") or line == key]
    return dict(pair.split("=", 1) for pair in line.split())


def test_a_node_is_declared_with_its_size_and_address() -> None:
    node = fields(slurm_conf([NODE], [], [Partition("batch")], PORTS, {}), "NodeName=node-1")
    assert node["Port"] == "20003"
    assert node["CPUs"] == "64"
    assert int(node["SocketsPerBoard"]) * int(node["CoresPerSocket"]) * int(node["ThreadsPerCore"]) == 64
    assert node["RealMemory"] == "512000"
    assert node["Gres"] == "gpu:h100:8"
    assert node["Feature"] == "ib"


def test_an_external_node_has_no_slurmd_to_talk_to() -> None:
    text = slurm_conf([], [SlurmNode("x-1", cpus=3)], [Partition("batch")], PORTS, {})
    node = fields(text, "NodeName=x-1")
    assert node["State"] == "EXTERNAL"
    assert "Port" not in node
    assert node["NodeAddr"] == "127.0.0.1"  # an unresolvable name stalls slurmctld for 10 s at each signal to its jobs
    assert int(node["SocketsPerBoard"]) * int(node["CoresPerSocket"]) == 3


def test_a_partition_has_its_preemption() -> None:
    low = Partition("low", nodes="node-1", priority_tier=1, grace_time_s=40, preempt_mode="cancel")
    text = slurm_conf([NODE], [], [Partition("batch", default=True), low], PORTS, {})
    partition = fields(text, "PartitionName=low")
    expected = {"Nodes": "node-1", "Default": "NO", "PriorityTier": "1", "GraceTime": "40", "PreemptMode": "CANCEL"}
    assert expected.items() <= partition.items()


def test_the_callers_keys_win_whatever_their_case_and_an_empty_value_removes_one() -> None:
    wanted = {"killwait": "5", "GresTypes": "", "Epilog": "/lab/etc/e"}
    text = slurm_conf([NODE], [], [Partition("batch")], PORTS, wanted)
    assert re.findall(r"(?im)^killwait=(.*)$", text) == ["5"]
    assert "GresTypes" not in text
    assert "\nEpilog=/lab/etc/e\n" in text


def test_accounts_are_kept_and_limits_hold_only_where_there_is_a_slurmdbd() -> None:
    without = slurm_conf([NODE], [], [Partition("batch")], PORTS, {})
    text = slurm_conf([NODE], [], [Partition("batch")], replace(PORTS, slurmdbd=20009), {})
    assert "AccountingStorage" not in without
    assert "\nAccountingStoragePort=20009\n" in text
    assert "\nAccountingStorageEnforce=associations,limits,qos\n" in text


def test_there_is_room_for_every_node() -> None:
    nodes = [SlurmNode(f"x-{index}") for index in range(2000)]
    assert "\nMaxNodeCount=2000\n" in slurm_conf([], nodes, [Partition("batch")], PORTS, {})


def test_gpus_are_devices_of_the_node() -> None:
    nodes = [NODE, SlurmNode("node-2", gpus=1), SlurmNode("node-3")]
    lines = gres_conf(nodes).splitlines()
    assert "NodeName=node-1 Name=gpu Type=h100 File=/dev/nvidia[0-7]" in lines
    assert "NodeName=node-2 Name=gpu File=/dev/nvidia0" in lines
    assert not any("node-3" in line for line in lines)
    assert gpu_devices(nodes) == [f"nvidia{index}" for index in range(8)]


@pytest.mark.parametrize(
    ("nodes", "partitions", "words"),
    [
        ([NODE, NODE], [Partition("batch")], "node node-1 is declared twice"),
        ([NODE], [Partition("a"), Partition("a")], "partition a is declared twice"),
        ([NODE], [Partition("a", default=True), Partition("b", default=True)], "one partition can be the default"),
        ([SlurmNode("node-1", cpus=7, threads_per_core=2)], [Partition("a")], "7 CPUs cannot be cores of 2 threads"),
    ],
)
def test_what_slurm_would_misread_is_refused(nodes: list[SlurmNode], partitions: list[Partition], words: str) -> None:
    with pytest.raises(LabError, match=words):
        slurm_conf(nodes, [], partitions, PORTS, {})
