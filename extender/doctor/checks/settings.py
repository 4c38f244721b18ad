"""Check the settings of slurm.conf by one table. Facts and defaults are those of slurm.conf(5), 23.11 to 26.05."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from extender.doctor.facts import Facts
from extender.doctor.finding import Finding, error, ok, skipped, warning
from extender.doctor.registry import CheckGroup
from extender.doctor.slurm_conf import KnownSlurmConf
from extender.domain.nodes.fences import NO_LIMIT, too_short

check = CheckGroup()

HOW = "`scontrol show config | slurm-extender doctor --slurm-conf - …`, or --slurm-conf FILE"

FENCE_SCRIPT = "slurm-extender"
"""Part of the name of the fence script."""


@dataclass(frozen=True, slots=True)
class SettingContext:
    """The configuration of the extender and the state of Slurm, with which settings are compared."""

    kill_wait_s: float = 30.0
    send_user_signal: bool = False
    preempting_qos: frozenset[str] = frozenset()
    max_grace_s: float = 600.0
    records: int | None = None
    """Jobs that slurmctld remembers, ended jobs included; `None`: not known."""

    external_nodes: bool = False
    graced: bool = False
    """A partition has GraceTime."""

    slurmds: bool = True
    """A node has a slurmd."""


Rule = tuple[Callable[[str, str, str], Finding], Callable[[Any, SettingContext], bool], str, str]
"""A finding, for which values it holds, its text and its advice.

In the texts, `v` is the value, `at` the context and `fences` the sentence of `domain.nodes.fences`."""


class SlurmSetting:
    """A row: `read` returns the value, `None` if it is not shown. The first rule that holds decides; else `good`."""

    def __init__(
        self,
        name: str,
        read: Callable[[KnownSlurmConf], Any],
        good: str,
        *rules: Rule,
        key: str = "",
        nodes: bool = False,
    ) -> None:
        self.name = name
        self.read = read
        self.good = good
        """The text if no rule holds; "": no line."""
        self.rules = rules
        self.key = key or name
        """The name in slurm.conf."""
        self.nodes = nodes
        """It matters only if some node has a slurmd."""

    def judge(self, value: Any, at: SettingContext) -> Iterator[Finding]:
        """Judge a value by the rules."""
        shown = {"v": "none" if value == "" else value, "at": at}
        if self.name == "PrologEpilogTimeout":
            shown["fences"] = "".join(too_short(value, at.max_grace_s))
        for finding, holds, seen, advice in self.rules:
            if holds(value, at):
                yield finding(self.name, seen.format_map(shown), advice.format_map(shown))
                return
        if self.good:
            yield ok(self.name, self.good.format_map(shown))


def _number(name: str, default: int) -> Callable[[KnownSlurmConf], int | None]:
    return lambda conf: conf.number(name, default)


def _text(name: str, default: str = "") -> Callable[[KnownSlurmConf], str | None]:
    return lambda conf: conf.get(name, default)


def _words(name: str, default: str = "") -> Callable[[KnownSlurmConf], str | None]:
    return lambda conf: None if (words := conf.words(name, default)) is None else ",".join(sorted(words))


def _parameter(key: str, name: str, default: str = "unset") -> Callable[[KnownSlurmConf], str | None]:
    """Read one entry of a list such as SchedulerParameters, and its value if it has one."""
    return lambda conf: None if (parameters := conf.parameters(key)) is None else parameters.get(name, default)


def _memory(conf: KnownSlurmConf) -> tuple[int, int] | None:
    of_cpu, of_node = conf.number("DefMemPerCPU", 0), conf.number("DefMemPerNode", 0)
    return None if of_cpu is None and of_node is None else (of_cpu or 0, of_node or 0)


def _records(conf: KnownSlurmConf) -> tuple[int, int] | None:
    most = conf.number("MaxJobCount", 10_000)
    return None if most is None else (most, conf.number("MinJobAge", 300) or 300)


def _prolog_timeout(conf: KnownSlurmConf) -> int | None:
    # slurmrestd shows it as the two settings that it stands for (26.05.5).
    limit = conf.number("PrologTimeout" if "prologtimeout" in conf.values else "PrologEpilogTimeout", NO_LIMIT)
    return NO_LIMIT if limit is not None and limit < 0 else limit


def _script(name: str, without: str, *, nodes: bool = False) -> SlurmSetting:
    return SlurmSetting(name, _text(name), "{v}",
        (warning, lambda v, _: not v, f"not set: {without}",
         "install the output of `slurm-extender generate fence-script` (docs/fences.md)"),
        (skipped, lambda v, _: FENCE_SCRIPT not in v,
         "{v}; its name does not show whether it contains the fence script",
         "`grep SLURM_EXTENDER FILE` on its machine (docs/fences.md)"),
        nodes=nodes)  # fmt: skip


_IN_USE = "{at.records} of {v[0]} job records are in use, including those of jobs that ended in the last {v[1]} s"
_RAISE = "raise MaxJobCount, or lower MinJobAge: at the limit Slurm takes no job, and no Pod is placed"
_NO_SIGNAL = "partitions have GraceTime, and PreemptParameters lacks it: scripts get no signal when a preemption begins"
_KILL_WAIT = "{v} s, and slurm.killWait says {at.kill_wait_s:g} s"

SCRIPTS = ("Epilog", "PrologSlurmctld", "EpilogSlurmctld")

SETTINGS: tuple[SlurmSetting, ...] = (
    SlurmSetting("batch_sched_delay", _parameter("SchedulerParameters", "batch_sched_delay", "3"),
        "0: Slurm considers submitted jobs within a second",
        (warning, lambda v, _: v != "0", "{v} s: submitted jobs may wait that long before Slurm considers them",
         "set SchedulerParameters=batch_sched_delay=0: a Pod gets its node 1 s sooner on average, a burst far sooner"),
        key="SchedulerParameters"),
    SlurmSetting("defer", _parameter("SchedulerParameters", "defer"), "not set",
        (warning, lambda v, _: v != "unset",
         "SchedulerParameters has `defer`: Slurm refuses immediate allocations (error 2125), so each Pod is queued",
         "remove `defer`; `defer_batch` defers only what sbatch submits"),
        key="SchedulerParameters"),
    SlurmSetting("disable_job_shrink", _parameter("SchedulerParameters", "disable_job_shrink"), "not set",
        (warning, lambda v, _: v != "unset",
         "SchedulerParameters has `disable_job_shrink`: the node of a gang's member that has ended stays allocated to "
         "the gang until its last member ends",
         "remove `disable_job_shrink`, so that a job may release single nodes"),
        key="SchedulerParameters"),
    SlurmSetting("default memory", _memory, "DefMemPerCPU={v[0]}, DefMemPerNode={v[1]} (0: not set)",
        (warning, lambda v, _: max(v) <= 0,
         "neither DefMemPerCPU nor DefMemPerNode is set: a job without a memory request gets all memory of its node",
         "set DefMemPerCPU, or no Pod fits beside such a job; placeholder jobs always request memory"),
        key="DefMemPerCPU"),
    SlurmSetting("KillWait", _number("KillWait", 30), "{v} s, as slurm.killWait says",
        (error, lambda v, at: v < at.kill_wait_s, _KILL_WAIT,
         "set slurm.killWait to {v}s: Slurm ends scripts and processes earlier than the extender expects"),
        (warning, lambda v, at: v > at.kill_wait_s, _KILL_WAIT,
         "set slurm.killWait to {v}s: Pods get less time than Slurm would give them")),
    SlurmSetting("JobRequeue", _number("JobRequeue", 1), "{v}; placeholder jobs are submitted with requeue off"),
    SlurmSetting("MaxJobCount", _records, _IN_USE,
        (skipped, lambda _, at: at.records is None, "{v[0]}; the number of records in slurmctld is not known",
         "run `squeue -t all | wc -l`"),
        (error, lambda v, at: at.records >= 0.9 * v[0], _IN_USE, _RAISE),
        (warning, lambda v, at: at.records >= 0.5 * v[0], _IN_USE, _RAISE)),
    SlurmSetting("MinJobAge", _number("MinJobAge", 300), "",
        (warning, lambda v, _: 0 < v < 60, "{v} s: Slurm soon forgets how a job ended",
         "set 60 or more: a job that is gone before the extender reads it counts as missing")),
    SlurmSetting("PrologEpilogTimeout", _prolog_timeout, "{v} s (65534: none)",
        (warning, lambda v, at: bool(too_short(v, at.max_grace_s)), "{fences}",
         "remove it, or set {at.max_grace_s:g} s or more")),
    SlurmSetting("SlurmdTimeout", _number("SlurmdTimeout", 300), "{v} s (0: never)",
        (error, lambda v, at: at.slurmds and 0 < v <= 10,
         "{v} s: a node is DOWN, and allocated again after its return, before it can be drained for its Pods",
         "set more than 30 s; Slurm's default is 300 s"),
        (warning, lambda v, at: at.slurmds and 10 < v <= 30,
         "{v} s: a node whose slurmd restarts is DOWN soon, and its jobs are lost", "set 300")),
    SlurmSetting("PreemptMode", _words("PreemptMode", "OFF"), "{v}",
        (error, lambda v, _: not {"GANG", "SUSPEND"}.isdisjoint(v.split(",")),
         "{v}: Slurm runs the preemptor beside the Pod that it preempts, and nothing prevents that",
         "set PreemptMode=CANCEL or REQUEUE, or PreemptMode=OFF on the partitions of placeholder jobs")),
    SlurmSetting("send_user_signal", _parameter("PreemptParameters", "send_user_signal"),
        "as slurm.sendUserSignal says",
        (warning, lambda v, at: v != "unset" and not at.send_user_signal, "PreemptParameters has it",
         "set slurm.sendUserSignal: true; until then the extender finds preemptions by polling"),
        (error, lambda v, at: v == "unset" and at.send_user_signal,
         "slurm.sendUserSignal is true, and PreemptParameters lacks it: placeholder jobs get no signal",
         "set PreemptParameters=send_user_signal in slurm.conf, or slurm.sendUserSignal: false"),
        (warning, lambda v, at: v == "unset" and at.graced and at.external_nodes,
         f"{_NO_SIGNAL}; such a preemption of an external node leaves it NOT_RESPONDING",
         "set PreemptParameters=send_user_signal in slurm.conf, and slurm.sendUserSignal: true"),
        (warning, lambda v, at: v == "unset" and at.graced, _NO_SIGNAL,
         "set PreemptParameters=send_user_signal in slurm.conf, and slurm.sendUserSignal: true"),
        key="PreemptParameters"),
    _script("Epilog", "a node is not held for the seconds between the end of a job and its drain", nodes=True),
    _script("PrologSlurmctld", "the next job may start on a node before the node is drained"),
    _script("EpilogSlurmctld", "the extender learns of the end of a job by its next poll only"),
    SlurmSetting("SelectType", _text("SelectType", "select/cons_tres"), "{v}",
        (error, lambda v, _: "linear" in v, "{v} allocates whole nodes: each Pod would take one",
         "set SelectType=select/cons_tres")),
    SlurmSetting("SelectTypeParameters", _words("SelectTypeParameters", "CR_CORE_MEMORY"), "{v}",
        (warning, lambda v, _: "MEMORY" not in v,
         "{v}: Slurm does not count memory, and the kubelet rejects Pods that do not fit",
         "set SelectTypeParameters=CR_Core_Memory, CR_CPU_Memory or CR_Socket_Memory")),
    SlurmSetting("AuthAltTypes", _text("AuthAltTypes"), "{v}",
        (error, lambda v, _: "auth/jwt" not in v, "{v}: slurmctld accepts no token",
         "set AuthAltTypes=auth/jwt and AuthAltParameters=jwt_key=FILE")),
    SlurmSetting("PreemptType", _text("PreemptType"), "",
        (warning, lambda v, at: "qos" in v and not at.preempting_qos, "{v}, and slurm.preemptingQos names no QOS",
         "name the QOS that may preempt there: an immediate allocation that Slurm refuses preempts jobs too")),
)  # fmt: skip


def context_of(facts: Facts) -> SettingContext:
    """Return the context of an installation."""
    config, slurm = facts.config, facts.slurm.snapshot
    nodes = slurm.nodes.values()
    return SettingContext(
        kill_wait_s=config.slurm.kill_wait,
        send_user_signal=config.slurm.send_user_signal,
        preempting_qos=frozenset(config.slurm.preempting_qos),
        max_grace_s=config.limits.max_grace,
        records=facts.slurm.records,
        external_nodes=any(node.external for node in nodes),
        graced=any(one.grace_time_s for one in slurm.partitions.values()),
        slurmds=not slurm.known or any(not node.external for node in nodes),
    )


@check(needs=lambda facts: (facts.conf, context_of(facts)))
def settings(conf: KnownSlurmConf | None, context: SettingContext) -> Iterator[Finding]:
    """Judge each setting by its row."""
    if conf is None:
        yield skipped("slurm.conf", "its settings are not known: slurmrestd shows them from 26.05 on", HOW)
        return
    hidden = set()
    for row in SETTINGS:
        if row.nodes and not context.slurmds:
            continue
        value = row.read(conf)
        if value is not None:
            yield from row.judge(value, context)
        elif row.good and row.key not in hidden:
            hidden.add(row.key)
            how = f"`scontrol show config | grep -i {row.key}`; {HOW}"
            yield skipped(row.key, f"{conf.source} does not show it", how)


def fenced(conf: KnownSlurmConf | None) -> bool:
    """Return whether slurm.conf has the fence script."""
    return conf is not None and any(FENCE_SCRIPT in (conf.get(name, "") or "") for name in SCRIPTS)
