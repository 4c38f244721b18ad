"""Which devices Slurm gave, in the words that are written on the Pod."""

import pytest

from extender.domain.jobs.devices import Device, numbers, written_devices
from extender.domain.wellknown import DEVICES, GPUS


@pytest.mark.parametrize(
    ("devices", "text", "gpus"),
    [
        ((Device("gpu", "h100", 2, "0-1"),), "gpu:h100:2(IDX:0,1)", "0,1"),
        ((Device("gpu", "", 1, "3"),), "gpu:1(IDX:3)", "3"),
        ((Device("gpu", "a", 1, "4"), Device("gpu", "b", 2, "0,2")), "gpu:a:1(IDX:4),gpu:b:2(IDX:0,2)", "0,2,4"),
        ((Device("shard", "", 3, "0,2"),), "shard:3(IDX:0,2)", "0,2"),
        ((Device("bandwidth", "", 4),), "bandwidth:4", None),
        ((Device("nic", "", 2, "0-1"),), "nic:2(IDX:0,1)", None),
    ],
)
def test_devices_are_written_as_slurm_says_them_and_gpus_by_number(
    devices: tuple[Device, ...], text: str, gpus: str | None
) -> None:
    assert written_devices(devices) == {DEVICES: text} | ({} if gpus is None else {GPUS: gpus})


def test_a_job_without_devices_writes_nothing() -> None:
    assert written_devices(()) == {}


def test_ranges_are_read() -> None:
    assert numbers("0-2,5,8-9") == [0, 1, 2, 5, 8, 9]
    assert numbers("") == []
