"""Annotations that one Pod can have, made to cost all other Pods time or memory."""

from __future__ import annotations

from collections.abc import Mapping

OWN, BRIDGE = "slurm-extender.io/", "slurmjob.slinky.slurm.net/"
LARGE = 250_000
"""Characters of one annotation; Kubernetes takes 256 KiB of all together."""

BOMBS: Mapping[str, dict[str, str]] = {
    "digits": {OWN + "cpus-per-task": "1" * LARGE + "x"},
    "digits of a peer": {BRIDGE + "cpu-per-task": "1" * LARGE + "x"},
    "many brackets": {OWN + "required-nodes": "n" + "[0-65535]" * 28_000},
    "a long name in a range": {OWN + "excluded-nodes": "n" * 60_000 + "[0-65535]"},
    "stars and commas": {OWN + "partition": "*," * (LARGE // 2)},
    "keys": {f"{OWN}unknown-{number}": "x" for number in range(6000)},
}
