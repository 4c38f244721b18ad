"""Run the command once: read all objects, then clean up each kind in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.assembly.io_context import IoContext, real_io_context
from extender.assembly.keys import KeyFileError, hook_keys
from extender.cli.uninstall.actions import ActionLog
from extender.cli.uninstall.inventory import take_inventory
from extender.cli.uninstall.jobs import JobCleanup
from extender.cli.uninstall.kube_nodes import KubeNodeCleanup
from extender.cli.uninstall.leader import check_no_leader
from extender.cli.uninstall.options import InventoryError, UninstallOptions
from extender.cli.uninstall.pods import PodCleanup
from extender.cli.uninstall.reminders import ReminderCleanup
from extender.cli.uninstall.slurm_nodes import SlurmNodeCleanup
from extender.config.document import ExtenderConfiguration
from extender.domain.jobs.job import Mark
from extender.domain.nodes.drain_reasons import drainer
from extender.domain.nodes.marks import MarkRules, owner_of_marks
from extender.domain.pods.allocation_record import AllocationRecords
from extender.kube.api_clock import ApiClock
from extender.kube.cluster import cluster_id
from extender.kube.connection import CredentialsError
from extender.kube.errors import ApiError
from extender.kube.node_writes import NodeWriter
from extender.kube.resource_claims import ResourceClaimWriter
from extender.kube.writes import PodWriter
from extender.slurm.external_nodes import Registrar
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.nodes import SlurmrestdNodes


class Uninstallation:
    """One run. `say` prints a line for each object that is removed, kept or left."""

    def __init__(
        self,
        config: ExtenderConfiguration,
        io_context: IoContext,
        cluster: str,
        options: UninstallOptions,
        print_line: Callable[[str], None],
        *,
        keys: Sequence[bytes],
    ) -> None:
        kubernetes, scheduler = io_context.kubernetes, config.scheduler.name
        owner, caller, clock = drainer(cluster, scheduler), config.slurm.caller, ApiClock(io_context.clock)
        kubernetes.on_answer(clock.answered)
        allocation_records = AllocationRecords(keys, cluster)
        writer = PodWriter(kubernetes, clock=clock, rng=io_context.rng, max_grace_s=int(config.limits.max_grace))
        self._config = config
        self._kubernetes = kubernetes
        self._force = options.force
        self._print_line = print_line
        self.actions = ActionLog(print_line, dry_run=options.dry_run)
        self._slurm_nodes = SlurmrestdNodes(io_context.slurm, io_context.clock, owner=owner)
        self._jobs = JobCleanup(
            self.actions,
            SlurmrestdJobs(io_context.slurm, io_context.clock),
            writer,
            Mark(cluster, scheduler, "", 0),
            None if caller is None else caller.uid,
            allocation_records=allocation_records,
            cancel_running=options.cancel_running,
        )
        self._pods = PodCleanup(self.actions, writer, scheduler, keep_gates=options.keep_gates, force=options.force)
        rules = MarkRules(owner_of_marks(scheduler, owner))
        self._marked = KubeNodeCleanup(self.actions, kubernetes, NodeWriter(kubernetes, clock=clock), rules)
        resource_claim_writer = ResourceClaimWriter(kubernetes, clock=clock, rng=io_context.rng)
        self._reminders = ReminderCleanup(self.actions, resource_claim_writer)
        registrar = Registrar(io_context.slurm, io_context.clock, owner)
        self._held = SlurmNodeCleanup(
            self.actions,
            self._slurm_nodes,
            registrar,
            allocation_records,
            scheduler=scheduler,
            owner=owner,
            force=options.force,
        )

    async def run(self) -> bool:
        """Remove everything. Return whether nothing is left for another run or an administrator.

        Raises `LeaderActiveError`, `InventoryError`.
        """
        if not self._force:
            await check_no_leader(self._config, self._kubernetes, self._print_line)
        found = await take_inventory(self._config, self._kubernetes, self._slurm_nodes)
        await self._jobs.end(found)
        await self._pods.open_gates(found)
        await self._pods.withdraw_conditions(found)
        await self._marked.clean(found)
        await self._reminders.delete(found)
        await self._held.delete_registered(found)
        await self._held.remove_drains(found)
        for unreadable in found.unreadable:
            self.actions.left(f"{unreadable}: check it for a gate, taints and conditions of the extender")
        return not self.actions.done["left"]


async def remove(
    config: ExtenderConfiguration, io_context: IoContext, options: UninstallOptions, print_line: Callable[[str], None]
) -> bool:
    """Run once with the given connections. Raises `LeaderActiveError`, `InventoryError`."""
    if options.dry_run:
        io_context.write_gate.share(0.0)  # the write gate never opens: no write is sent
    try:
        cluster = config.scheduler.cluster_id or await cluster_id(io_context.kubernetes)
    except ApiError as error:
        raise InventoryError(f"the id of the cluster cannot be read: {error}") from error
    try:
        keys = hook_keys(config)
    except KeyFileError as error:
        print_line(f"{error}; without the key the job annotations of Pods are not trusted")
        keys = ()
    run = Uninstallation(config, io_context, cluster, options, print_line, keys=keys or (io_context.fresh_key,))
    clean = await run.run()
    done = run.actions.done
    word = "would be removed" if options.dry_run else "removed"
    print_line(
        f"{done['done']} {word}, {done['kept']} kept, {done['left']} need{'s' if done['left'] == 1 else ''} action"
    )
    return clean


async def uninstall(
    config: ExtenderConfiguration, options: UninstallOptions, print_line: Callable[[str], None]
) -> bool:
    """Run once with real connections. Raises `LeaderActiveError`, `InventoryError`."""
    try:
        io_context = await real_io_context(config)
    except (CredentialsError, OSError, ValueError) as error:
        raise InventoryError(str(error)) from error
    try:
        return await remove(config, io_context, options, print_line)
    finally:
        await io_context.close()
