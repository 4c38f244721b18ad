"""A job's life in the simulated slurmctld: started, limited, preempted, ended, cleaned up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from simulator.slurm.batch_script import PostHook, Signal, run_placeholder
from simulator.slurm.records import FORGOTTEN, SimJob, SimNode, SimPartition
from simulator.slurm.timers import SimTimers

JobListener = Callable[[str, SimJob], None]
"""`listener(change, job)`: "submitted", "started", "launched", "failed", "ended", "requeued", "warned", "completed",
"suspended", "resumed", "shrunk" or "forgotten". A job is launched when every Prolog before it is over."""

NodeScript = Callable[[SimJob, str], Awaitable[int]]
"""`await script(job, node)`: the exit code of a node's Prolog or Epilog."""

ControllerScript = Callable[[SimJob], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Scripts:
    """The scripts that a site runs before and after jobs; PrologFlags=Alloc."""

    prolog: NodeScript | None = None
    epilog: NodeScript | None = None
    prolog_slurmctld: ControllerScript | None = None
    epilog_slurmctld: ControllerScript | None = None


_A_YEAR_S = 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class SimConfig:
    """The settings of slurm.conf; seconds."""

    kill_wait_s: float = 30.0
    min_job_age_s: float = 300.0
    max_job_count: int = 10_000
    max_node_count: int = 10_000
    gres_types: tuple[str, ...] = ("gpu", "mps", "shard")
    schedule_delay_s: float = 0.3
    """From a submission to the pass that looks at it (`batch_sched_delay=0`)."""

    backfill_interval_s: float = 5.0
    limit_interval_s: float = 30.0
    """How often time limits are looked at."""

    preempt_again_s: float = 14.0
    """After which Slurm preempts a further victim, if the first one's node is still not free."""

    grace_overrun_s: float = 5.0
    """How long after its GraceTime a victim is really ended."""

    resume_silence_s: float = 0.5
    """How long a resumed node does not respond."""

    message_timeout_s: float = 10.0
    """How long slurmctld waits for the answer of a slurmd (MessageTimeout)."""

    send_user_signal: bool = False
    preempt_type: str = "preempt/partition_prio"
    """As shown; the simulation knows no other."""

    job_shrink: bool = True
    """False: `SchedulerParameters=disable_job_shrink`."""

    preempt_mode: tuple[str, ...] = ("CANCEL",)
    """Of the whole cluster, as shown; what happens to a job is what its partition says."""


class JobLifecycle:
    """Starts and ends jobs. `changed(seconds)` asks for a look at the queue after so long."""

    def __init__(
        self,
        nodes: dict[str, SimNode],
        timers: SimTimers,
        config: SimConfig,
        changed: Callable[[float], None],
        notify: JobListener,
        *,
        post_hook: PostHook | None,
        scripts: Scripts,
    ) -> None:
        self._nodes = nodes
        self._timers = timers
        self._config = config
        self._changed = changed
        self._notify = notify
        self._post_hook = post_hook
        self.scripts = scripts
        self._prologs: dict[tuple[int, str], asyncio.Task[None]] = {}
        """Those that run, by job and node."""

        self._signals: dict[int, asyncio.Queue[Signal]] = {}
        self._scripts: dict[int, asyncio.Task[None]] = {}

    def start(self, job: SimJob, partition: SimPartition, nodes: Sequence[str]) -> None:
        """Give the job its nodes, and run its script when every Prolog is over."""
        now = self._timers.wall()
        job.state, job.reason, job.nodes, job.partition = "RUNNING", "None", tuple(nodes), partition.name
        job.start_time = now
        if job.exclusive and not job.packed:
            job.cpus_per_node = max(self._nodes[name].cpus for name in nodes)
        if job.time_limit_s is None and partition.max_time_minutes is not None:
            job.time_limit_s = partition.max_time_minutes * 60.0
        # A running job without limit ends in a year, for slurmctld.
        job.end_time = now + (_A_YEAR_S if job.time_limit_s is None else job.time_limit_s)
        if job.time_limit_s is not None:
            self._watch_limit(job)
        self._notify("started", job)
        if self.scripts.prolog_slurmctld is not None:
            job.flags.add("CONFIGURING")
            self._timers.start(self._configure(job, self.scripts.prolog_slurmctld), f"PrologSlurmctld of {job.job_id}")
        else:
            self._prepare_nodes(job)

    async def _configure(self, job: SimJob, script: ControllerScript) -> None:
        """Run PrologSlurmctld. Where it fails a batch job is requeued, any other cancelled (`slurm.conf(5)`).

        The time limit grows by how long it took (`job_mgr.c`, job_config_fini).
        """
        started = job.start_time
        code = await script(job)
        if not job.running or job.start_time != started:
            return
        job.flags.discard("CONFIGURING")
        job.end_time += self._timers.wall() - started
        if not code:
            self._prepare_nodes(job)
        elif job.script is not None and job.requeue:
            self.requeue(job)
        else:
            self.end(job, "CANCELLED")

    def _prepare_nodes(self, job: SimJob) -> None:
        if self.scripts.prolog is None or job.external:
            self._launch(job)
            return
        job.reason = "Prolog"
        for node in job.nodes:
            work = self._prepare(job, node, self.scripts.prolog)
            self._prologs[job.job_id, node] = self._timers.start(work, f"Prolog of job {job.job_id} on {node}")

    async def _prepare(self, job: SimJob, node: str, script: NodeScript) -> None:
        """Run a node's Prolog. Where it fails the node is drained and the job requeued and held, or cancelled."""
        try:
            code = await script(job, node)
        finally:
            del self._prologs[job.job_id, node]
        if code and not self._nodes[node].drained:
            self._nodes[node].drained, self._nodes[node].reason = True, "Prolog error"
        if not job.running or node not in job.nodes:
            return
        if not code:
            if not any(job_id == job.job_id for job_id, _ in self._prologs):
                job.reason = "None"
                self._launch(job)
        elif job.script is not None and job.requeue:
            self.requeue(job)
            job.held_by = job.reason = "launch failed requeued held"
        else:
            self.end(job, "CANCELLED")

    def _launch(self, job: SimJob) -> None:
        self._notify("launched", job)
        if job.script is not None and self._post_hook is not None:
            self._signals[job.job_id] = asyncio.Queue()
            script = self._run_script(job, self._signals[job.job_id], self._post_hook)
            self._scripts[job.job_id] = self._timers.start(script, f"script of job {job.job_id}")

    async def _run_script(self, job: SimJob, signals: asyncio.Queue[Signal], post_hook: PostHook) -> None:
        """Run the job's script and end the job with it: COMPLETED, or FAILED with the exit code."""
        code = await run_placeholder(job, signals, post_hook)
        if job.running:
            del self._signals[job.job_id], self._scripts[job.job_id]
            self.end(job, "FAILED" if code else "COMPLETED")

    def deafen(self, job_id: int) -> None:
        """Lose what the script is signalled, as slurmd does before the script is started."""
        self._signals[job_id] = asyncio.Queue()

    def signal_script(self, job: SimJob, signal: str) -> None:
        """Send the script a signal of those that it knows, as slurmd does for `BATCH_JOB`."""
        known = {one.value: one for one in Signal}
        if job.job_id in self._signals and signal in known:
            self._signals[job.job_id].put_nowait(known[signal])

    def fail(self, job: SimJob, reason: str) -> None:
        """End a job that never started."""
        now = self._timers.wall()
        job.state, job.reason, job.start_time, job.end_time, job.exit_code = "FAILED", reason, now, now, 1
        self._notify("failed", job)

    def end(self, job: SimJob, state: str) -> None:
        """End a job that waits, runs or is suspended; its nodes are cleaned up before they are free."""
        nodes = job.nodes if job.running or job.state == "SUSPENDED" else ()
        self.close(job, state)
        if nodes:
            self._complete_on(job, nodes)

    def close(self, job: SimJob, state: str) -> None:
        """End a job without cleaning up."""
        now = self._timers.wall()
        if job.pending:
            job.start_time = now
        else:
            reasons = {"NODE_FAIL": "NodeDown", "TIMEOUT": "TimeLimit", "FAILED": "NonZeroExitCode"}
            job.reason = reasons.get(state, "None")
        job.state, job.end_time = state, now
        job.exit_code = 1 if state in {"FAILED", "TIMEOUT", "NODE_FAIL"} else 0
        job.flags.discard("CONFIGURING")
        self._notify("ended", job)
        self._end_on_controller(job)
        self._changed(0.05)

    def _end_on_controller(self, job: SimJob) -> None:
        if self.scripts.epilog_slurmctld is not None and job.nodes:
            self._timers.start(self._notify_end(job, self.scripts.epilog_slurmctld), f"EpilogSlurmctld of {job.job_id}")

    async def _notify_end(self, job: SimJob, script: ControllerScript) -> None:
        await script(job)

    def shrink(self, job: SimJob, kept: Sequence[str]) -> None:
        """Take nodes from a running job, which goes on. They are free at once: no Epilog runs there."""
        job.nodes = tuple(name for name in job.nodes if name in kept)
        job.node_count = len(job.nodes)
        job.tasks_on = {name: count for name, count in job.tasks_on.items() if name in kept}
        self._notify("shrunk", job)
        self._changed(0.05)

    def lose_node(self, job: SimJob, node: str, *, script_matters: bool) -> None:
        """End what runs on a node that went DOWN, without Epilog; what completes on it is complete.

        A job that outlives its nodes runs on the others; if `script_matters`, not without its script.
        """
        if job.running and node in job.nodes and job.outlives_nodes and len(job.nodes) > 1:
            of_script = job.script is not None and node == job.nodes[0]
            if of_script:
                self.kill_script(job)
            if of_script and script_matters:
                self.end(job, "FAILED")
            else:
                self.shrink(job, [name for name in job.nodes if name != node])
        elif job.running and node in job.nodes:
            self.kill_script(job)
            self.close(job, "NODE_FAIL")
        elif node in job.completing_on:
            job.completing_on.discard(node)
            if not job.completing_on:
                self._complete(job)

    def requeue(self, job: SimJob) -> None:
        """Put the job back into the queue: same id, one more restart, not eligible for two minutes."""
        nodes = job.nodes
        job.state, job.reason, job.restart_count = "PENDING", "BeginTime", job.restart_count + 1
        job.nodes, job.start_time, job.end_time, job.preempt_time = (), 0.0, 0.0, 0.0
        job.begin_time = self._timers.wall() + 120.0
        self._notify("requeued", job)
        self._complete_on(job, nodes)

    def preempt(self, job: SimJob, partition: SimPartition) -> None:
        """Preempt a running job as its partition says: with GraceTime a warning first."""
        if job.preempt_time:
            return
        job.preempt_time = self._timers.wall()
        if not partition.grace_time_s:
            self._preempt_now(job, partition)
            return
        job.end_time = job.preempt_time + partition.grace_time_s
        self._notify("warned", job)
        if self._config.send_user_signal and job.warns_script and job.job_id in self._signals:
            self._signals[job.job_id].put_nowait(Signal.WARNING)
        late = partition.grace_time_s + self._config.grace_overrun_s
        self._timers.after(late, lambda: self._preempt_now(job, partition))

    def forget(self, job: SimJob) -> None:
        """Drop the record of a job: its script dies, and none of its timers meets who bears its number next."""
        self.kill_script(job)
        job.state = FORGOTTEN

    def bring_back(self, job: SimJob) -> None:
        """Restore a job of an older state, as it was then."""
        if job.running and job.time_limit_s is not None:
            self._watch_limit(job)
        if job.completing_on:
            self._complete_on(job, sorted(job.completing_on))

    def kill_script(self, job: SimJob) -> None:
        """Kill the script, if there is one, as SIGKILL."""
        self._signals.pop(job.job_id, None)
        script = self._scripts.pop(job.job_id, None)
        if script is not None:
            script.cancel()

    def _watch_limit(self, job: SimJob) -> None:
        """Check the time limit every half minute, so that a job overruns its own."""
        started, tick = job.start_time, self._config.limit_interval_s

        def check() -> None:
            if not job.running or job.start_time != started:
                return
            if "CONFIGURING" in job.flags:  # it is not ended then, and gets the time back
                self._timers.after(tick, check)
            elif job.end_time <= self._timers.wall():
                self.end(job, "TIMEOUT")
            else:  # the limit was changed
                self._timers.after(job.end_time - self._timers.wall() + tick / 2, check)

        self._timers.after(max(0.0, job.end_time - self._timers.wall()) + tick / 2, check)

    def _preempt_now(self, job: SimJob, partition: SimPartition) -> None:
        if not job.running or not job.preempt_time:
            return
        if partition.preempt_mode == "REQUEUE" and job.requeue and job.script is not None:
            self.requeue(job)
        else:
            self.end(job, "PREEMPTED")

    def _complete_on(self, job: SimJob, nodes: Sequence[str]) -> None:
        job.flags.add("COMPLETING")
        job.completing_on = set(nodes)
        if job.external:
            self._timers.after(0.05, lambda: self._complete(job))
        else:
            self._timers.start(self._clean_up(job, nodes), f"end of job {job.job_id}")

    async def _clean_up(self, job: SimJob, nodes: Sequence[str]) -> None:
        """Give the script KillWait to end, then run each node's Epilog."""
        script = self._scripts.pop(job.job_id, None)
        if script is not None:
            self._signals.pop(job.job_id).put_nowait(Signal.END)
            await asyncio.wait((script,), timeout=self._config.kill_wait_s)
            script.cancel()
        await asyncio.sleep(0.04)
        prologs = [prolog for (job_id, _), prolog in self._prologs.items() if job_id == job.job_id]
        if prologs:  # slurmd lets them end
            await asyncio.wait(prologs)
        await asyncio.gather(*(self._end_on(job, node) for node in nodes))
        self._complete(job)

    async def _end_on(self, job: SimJob, node: str) -> None:
        """Run the Epilog of one node, which is free for the next job then, whatever the others do."""
        if node not in job.completing_on:  # went DOWN meanwhile
            return
        code = await self.scripts.epilog(job, node) if self.scripts.epilog is not None else 0
        if code and not self._nodes[node].drained:
            self._nodes[node].drained, self._nodes[node].reason = True, "Epilog error"
        job.completing_on.discard(node)
        self._changed(0.03)

    def _complete(self, job: SimJob) -> None:
        job.completing_on.clear()
        job.flags.discard("COMPLETING")
        self._notify("completed", job)
        self._changed(0.03)
