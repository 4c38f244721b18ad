"""The request to submit, allocate or update a job, for every API version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from slurmclient.errors import InvalidRequestError
from slurmclient.models.signal import check_signal
from slurmclient.number import Infinite
from slurmclient.tres import TresError, check_tres_request

#: slurmctld refuses longer names, comments and extras as "pathname too long" (2012).
LONGEST_TEXT_BYTES: Final = 1024


class Shared(StrEnum):
    """Name the ways in which a job shares its nodes (sbatch(1) `--exclusive`, `--oversubscribe`)."""

    NONE = "none"
    """With no other job: `--exclusive`."""
    USER = "user"
    """With jobs of the same user only."""
    MCS = "mcs"
    """With jobs of the same MCS label only."""
    TOPO = "topo"
    """Whole blocks of the topology, with no other job; from v0.0.41 on."""
    OVERSUBSCRIBE = "oversubscribe"
    """Resources may be shared: `--oversubscribe`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """Describe a job. A field that is None is not sent, and the default of Slurm applies.

    A new job gets no empty text or tuple either (slurmrestd would use `""` as a name). In an *update* an empty text or
    tuple clears a field of :data:`CLEARABLE`; of another field it is refused.

    Attributes:
        name: at most 1024 bytes of anything.
        account: to charge.
        partition: or several, separated by commas.
        qos: quality of service.
        reservation: or several, separated by commas.
        wckey: workload characterisation key.
        comment: at most 1024 bytes; the owner may change it later.
        admin_comment: operators only; a submission made as an ordinary user is refused with it.
        extra: at most 1024 bytes; seen by Prolog and Epilog, not by the script.
        mcs_label: label of multi-category security.
        constraints: features that nodes must have (sbatch(1) `--constraint`).
        prefer: features that nodes should have.
        licenses: `name:count,…`.
        dependency: sbatch(1) `--dependency`.
        required_switches: at most so many leaf switches.
        wait_for_switch_s: how long the job may wait for so few switches; then it takes any nodes.
        segment_size: nodes that have to be beside each other in a block (topology/block). v0.0.41 (Slurm 24.11).
        container: path of an OCI bundle.
        script: of the batch job, `#SBATCH` lines are not read. Not for allocations and external jobs.
        environment: `KEY=value`, the whole environment of the script (no HOME or USER unless given); a script
            needs at least one.
        current_working_directory: required by every job but external ones from 25.11 on.
        user_id: to submit for; root and SlurmUser only, and never without `group_id`.
        group_id: the job's group.
        time_limit_minutes: INFINITE for none.
        time_minimum_minutes: to which the scheduler may shorten the limit.
        begin_time: epoch seconds, or Slurm's text (`now+1hour`).
        deadline: epoch seconds by which the job must have ended.
        minimum_cpus: for the whole job.
        maximum_cpus: for the whole job.
        minimum_cpus_per_node: a node must have.
        cpus_per_task: rounded up to whole cores by Slurm.
        tasks: number of tasks.
        tasks_per_node: at most.
        threads_per_core: a node must have.
        memory_per_node_mb: one of the two memory fields should always be there: the default is the whole node.
        memory_per_cpu_mb: memory by CPU.
        tres_per_node: `gres/gpu:h100:2` (not `gpu:2`).
        tres_per_job: same form.
        tres_per_socket: same form.
        tres_per_task: same form.
        minimum_nodes: at least.
        maximum_nodes: at most.
        nodes: count or range as text (`2`, `1-4`), instead of the two before.
        required_nodes: names. A name that is deleted later ends the job at slurmctld's next restart: prefer
            `excluded_nodes`.
        excluded_nodes: names; an unknown one is refused (2018), excluding all as well (2014).
        shared: None is the partition's default.
        contiguous: nodes must be neighbours.
        hold: submit held; in an update False releases it.
        priority: operators only; 0 holds.
        nice: -2147483645 … 2147483645, negative for operators only.
        requeue: whether Slurm may start it again after a failure or preemption; its default is mostly True.
        kill_on_node_fail: Slurm's default is True.
        kill_warning_signal: name or number of the signal sent before the time limit.
        kill_warning_delay_s: how long before; Slurm checks every 30 s.
        kill_warning_flags: BATCH_JOB (signal the script), RESERVATION_JOB.
        standard_input: path.
        standard_output: path; a file that cannot be opened fails the job.
        standard_error: path.
        external: an external job: Slurm accounts for it and starts nothing. Needs v0.0.43.
        immediate: start at once or be refused (2078). Always true for an allocation.
        reboot: reboot the nodes first.
        overcommit: one CPU for any number of tasks.
    """

    name: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    wckey: str | None = None
    comment: str | None = None
    admin_comment: str | None = None
    extra: str | None = None
    mcs_label: str | None = None
    constraints: str | None = None
    prefer: str | None = None
    licenses: str | None = None
    dependency: str | None = None
    required_switches: int | None = None
    wait_for_switch_s: int | None = None
    segment_size: int | None = None
    container: str | None = None
    script: str | None = None
    environment: tuple[str, ...] | None = None
    current_working_directory: str | None = None
    user_id: int | None = None
    group_id: int | None = None
    time_limit_minutes: int | Infinite | None = None
    time_minimum_minutes: int | Infinite | None = None
    begin_time: int | str | None = None
    deadline: int | None = None
    minimum_cpus: int | None = None
    maximum_cpus: int | None = None
    minimum_cpus_per_node: int | None = None
    cpus_per_task: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    threads_per_core: int | None = None
    memory_per_node_mb: int | None = None
    memory_per_cpu_mb: int | None = None
    tres_per_node: str | None = None
    tres_per_job: str | None = None
    tres_per_socket: str | None = None
    tres_per_task: str | None = None
    minimum_nodes: int | None = None
    maximum_nodes: int | None = None
    nodes: str | None = None
    required_nodes: tuple[str, ...] | None = None
    excluded_nodes: tuple[str, ...] | None = None
    shared: Shared | None = None
    contiguous: bool | None = None
    hold: bool | None = None
    priority: int | None = None
    nice: int | None = None
    requeue: bool | None = None
    kill_on_node_fail: bool | None = None
    kill_warning_signal: str | int | None = None
    kill_warning_delay_s: int | None = None
    kill_warning_flags: tuple[str, ...] | None = None
    standard_input: str | None = None
    standard_output: str | None = None
    standard_error: str | None = None
    external: bool | None = None
    immediate: bool | None = None
    reboot: bool | None = None
    overcommit: bool | None = None

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise InvalidRequestError(f"job description: {problem}")

    def _problems(self) -> Iterator[str]:
        yield from self._contradictions()
        yield from self._texts_too_long()
        yield from self._texts_with_zero_bytes()
        yield from self._misread_resources()
        yield from self._misread_signal()
        for entry in self.environment or ():
            if "=" not in entry or entry.startswith("="):
                yield f"environment entry {entry!r} is not 'KEY=value'"
        if self.nodes and not re.fullmatch(r"[1-9][0-9]*(-[1-9][0-9]*)?", self.nodes, re.ASCII):
            yield f"nodes={self.nodes!r}: a count or a range, e.g. '2' or '1-4'"

    def _contradictions(self) -> Iterator[str]:
        if (self.user_id is None) != (self.group_id is None):
            yield (
                f"user_id={self.user_id}, group_id={self.group_id}: give both or neither; "
                "a user without group runs with the group of the token's owner"
            )
        for name, value in (("user_id", self.user_id), ("group_id", self.group_id)):
            # slurmrestd 24.05 to 25.05.2 aborts on the name of a group; only numbers are safe.
            if value is not None and not str(value).isdecimal():
                yield f"{name}={value!r}: a number from 0 on"
        if self.memory_per_node_mb is not None and self.memory_per_cpu_mb is not None:
            yield "memory_per_node_mb and memory_per_cpu_mb: give one, Slurm ignores the second without a word"
        if self.script is not None and self.external:
            yield "an external job has no script"

    def _texts_too_long(self) -> Iterator[str]:
        for name in ("name", "comment", "admin_comment", "extra"):
            text = getattr(self, name)
            if text is not None and len(text.encode("utf-8", "surrogatepass")) > LONGEST_TEXT_BYTES:
                yield f"{name} is longer than {LONGEST_TEXT_BYTES} bytes, the most that slurmctld takes"

    def _misread_resources(self) -> Iterator[str]:
        for name in ("tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task"):
            text = getattr(self, name)
            if text:
                try:
                    check_tres_request(text)
                except TresError as error:
                    yield f"{name}: {error}"

    def _misread_signal(self) -> Iterator[str]:
        if self.kill_warning_signal is not None:
            try:
                check_signal(self.kill_warning_signal)
            except InvalidRequestError as error:
                yield f"kill_warning_signal: {error.message}"
        for flag in self.kill_warning_flags or ():
            if flag not in ("BATCH_JOB", "RESERVATION_JOB"):
                yield f"kill_warning_flags: {flag!r} is neither BATCH_JOB nor RESERVATION_JOB"

    def _texts_with_zero_bytes(self) -> Iterator[str]:
        for field in fields(self):
            value = getattr(self, field.name)
            match value:
                case str():
                    found = "\0" in value
                case tuple():
                    found = any(isinstance(text, str) and "\0" in text for text in value)
                case _:
                    continue
            if found:
                yield f"{field.name} holds a zero byte, at which Slurm would cut it off"


#: Fields that an update can empty with an empty text or tuple (tried on 24.11 and 26.05).
CLEARABLE: Final = frozenset(
    {
        "admin_comment",
        "comment",
        "constraints",
        "dependency",
        "excluded_nodes",
        "extra",
        "licenses",
        "prefer",
        "required_nodes",
    }
)
