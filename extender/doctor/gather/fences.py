"""Read what verifies the evidence of fences: the identity of the cluster and the key of the hooks."""

from __future__ import annotations

from extender.assembly.keys import KeyFileError, hook_keys
from extender.config.derive import mark_rules
from extender.config.document import ExtenderConfiguration
from extender.doctor.fence_reader import FenceReader
from extender.domain.nodes.drain_reasons import drainer
from extender.domain.nodes.fence_evidence import FenceProofs
from extender.kube.cluster import cluster_id
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiError


async def read_fence_keys(connection: ApiConnection | None, config: ExtenderConfiguration) -> FenceReader | None:
    """Return the reader of evidence; `None`: the name of the extender on Nodes is not known."""
    scheduler = config.scheduler
    cluster, trouble = scheduler.cluster_id or "", ""
    if not cluster:
        cluster, trouble = await _cluster(connection)
    owner = mark_rules(config, drainer(cluster, scheduler.name) if cluster else "").owner
    if not owner:
        return None
    try:
        keys = hook_keys(config)
    except KeyFileError as error:
        return FenceReader(owner, config.fences.evidence, trouble=str(error))
    if not keys:
        trouble = "hooks.keyFile is not set"
    proofs = None if trouble else FenceProofs(keys, cluster, owner)
    return FenceReader(owner, config.fences.evidence, proofs, trouble)


async def _cluster(connection: ApiConnection | None) -> tuple[str, str]:
    """Return the id of the cluster, and why it is not known."""
    if connection is None:
        return "", "the id of the cluster is not known"
    try:
        return await cluster_id(connection), ""
    except ApiError as error:
        return "", f"the id of the cluster is not known: {error}"
