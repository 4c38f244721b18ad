"""One run: what there is, then each kind of thing in its turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.assembly.io_context import IoContext, real_io_context
from extender.assembly.keys import KeyFileError, hook_keys
from extender.cli.uninstall.deeds import Deeds
from extender.cli.uninstall.found import check
from extender.cli.uninstall.jobs import OurJobs
from extender.cli.uninstall.kube_nodes import KubernetesNodes
from extender.cli.uninstall.leader import nobody_leads
from extender.cli.uninstall.options import CannotLookError, HandBackOptions
from extender.cli.uninstall.pods import OurPods
from extender.cli.uninstall.slurm_nodes import SlurmNodeCleanup
from extender.config.derive import owner_of_token
from extender.config.document import ExtenderConfiguration
from extender.domain.jobs.job import Mark
from extender.domain.nodes.drains import drainer
from extender.domain.nodes.marks import MarkRules, owner_of_marks
from extender.domain.pods.claim import Claims
from extender.kube.api_clock import ApiClock
from extender.kube.cluster import cluster_id
from extender.kube.connection import CredentialsError
from extender.kube.errors import ApiError
from extender.kube.node_writes import NodeWriter
from extender.kube.writes import PodWriter
from extender.slurm.external_nodes import Registrar
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.nodes import SlurmrestdNodes


class HandBack:
    """One run. `say` is told each thing that is done, kept or left, a line each."""

    def __init__(
        self,
        config: ExtenderConfiguration,
        io_context: IoContext,
        cluster: str,
        options: HandBackOptions,
        say: Callable[[str], None],
        *,
        keys: Sequence[bytes],
    ) -> None:
        kubernetes, scheduler = io_context.kubernetes, config.scheduler.name
        owner, caller, clock = drainer(cluster, scheduler), owner_of_token(config), ApiClock(io_context.clock)
        kubernetes.on_answer(clock.answered)
        claims = Claims(keys, cluster)
        writer = PodWriter(kubernetes, clock=clock, rng=io_context.rng, max_grace_s=int(config.limits.max_grace))
        self._config = config
        self._kubernetes = kubernetes
        self._force = options.force
        self._say = say
        self.deeds = Deeds(say, dry_run=options.dry_run)
        self._slurm_nodes = SlurmrestdNodes(io_context.slurm, io_context.clock, owner=owner)
        self._jobs = OurJobs(
            self.deeds,
            SlurmrestdJobs(io_context.slurm, io_context.clock),
            writer,
            Mark(cluster, scheduler, "", 0),
            None if caller is None else caller.uid,
            claims=claims,
            cancel_running=options.cancel_running,
        )
        self._pods = OurPods(self.deeds, writer, scheduler, keep_gates=options.keep_gates, force=options.force)
        rules = MarkRules(owner_of_marks(scheduler, owner))
        self._marked = KubernetesNodes(self.deeds, kubernetes, NodeWriter(kubernetes, clock=clock), rules)
        registrar = Registrar(io_context.slurm, io_context.clock, owner)
        self._held = SlurmNodeCleanup(
            self.deeds, self._slurm_nodes, registrar, claims, scheduler=scheduler, owner=owner, force=options.force
        )

    async def run(self) -> bool:
        """Hand back. Whether nothing is left that another run, or a person, has to see to.

        Raises `StillLedError`, `CannotLookError`.
        """
        if not self._force:
            await nobody_leads(self._config, self._kubernetes, self._say)
        found = await check(self._config, self._kubernetes, self._slurm_nodes)
        await self._jobs.end(found)
        await self._pods.open_gates(found)
        await self._pods.take_back_words(found)
        await self._marked.clean(found)
        await self._held.take_out(found)
        await self._held.lift_drains(found)
        for odd in found.odd:
            self.deeds.left(f"{odd}: look for a gate, taints and conditions of ours there")
        return not self.deeds.done["left"]


async def hand_back(
    config: ExtenderConfiguration, io_context: IoContext, options: HandBackOptions, say: Callable[[str], None]
) -> bool:
    """One run in the cluster of `wires`. Raises `StillLedError`, `CannotLookError`."""
    if options.dry_run:
        io_context.write_gate.share(0.0)  # nothing is ever given: no write can leave
    try:
        cluster = config.scheduler.cluster_id or await cluster_id(io_context.kubernetes)
    except ApiError as error:
        raise CannotLookError(f"which cluster this is cannot be told: {error}") from error
    try:
        keys = hook_keys(config)
    except KeyFileError as error:
        say(f"{error}; what stands on Pods about their jobs is not believed without it")
        keys = ()
    run = HandBack(config, io_context, cluster, options, say, keys=keys or (io_context.fresh_key,))
    clean = await run.run()
    done = run.deeds.done
    word = "would be handed back" if options.dry_run else "handed back"
    say(f"{done['done']} things {word}, {done['kept']} kept, {done['left']} left")
    return clean


async def uninstall(config: ExtenderConfiguration, options: HandBackOptions, say: Callable[[str], None]) -> bool:
    """One run on real connections. Raises `StillLedError`, `CannotLookError`."""
    try:
        io_context = await real_io_context(config)
    except (CredentialsError, OSError, ValueError) as error:
        raise CannotLookError(str(error)) from error
    try:
        return await hand_back(config, io_context, options, say)
    finally:
        await io_context.close()
