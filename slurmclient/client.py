"""The public interface: one method for each call of slurmrestd."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from slurmclient.auth import TokenSource
from slurmclient.capabilities import API_VERSIONS, Capabilities, Release
from slurmclient.connection import LONGEST_BODY
from slurmclient.connection_pool import Dial
from slurmclient.endpoints import cluster, job_records, jobs, nodes
from slurmclient.exchange import Observe, Sender
from slurmclient.models.accounting import Association, JobRecord, Share
from slurmclient.models.answer import CancelStatus, FoundJob, SlurmWarning, SubmitResult
from slurmclient.models.controller import Diagnostics, License, Ping, SlurmConf
from slurmclient.models.description import JobDescription
from slurmclient.models.job import Job, ResourceNode
from slurmclient.models.listing import JobStates, Listing
from slurmclient.models.node import NewNode, Node, NodeUpdate
from slurmclient.models.partition import Partition, Reservation
from slurmclient.retry import RetryPolicy
from slurmclient.session import CallOptions, Session
from slurmclient.tls import TlsOptions
from slurmclient.transport import (
    MOST_CONNECTIONS,
    MayWrite,
    ShieldRequest,
    Timeouts,
    Transport,
)

#: With more ids the URL may become too long for slurmrestd; the states of all jobs are read then.
MOST_IDS_IN_A_URL = 200


class SlurmClient:
    """Send requests to one Slurm cluster through one or several slurmrestd.

    Use it by `async with`. The first call negotiates the API version if :meth:`negotiate` was not called. Every
    method accepts, by keyword, `as_user` (the Slurm user to act as; needs a token of root or SlurmUser) and
    `deadline_s` (seconds for the whole call, repetitions included), and raises
    :class:`~slurmclient.errors.SlurmError` in one of its classes.

    Args:
        addresses: of slurmrestd, in order of preference: `http://…`, `https://…`, `unix:///…`. A connection
            that fails moves on to the next, which then stays in use.
        token: provides tokens.
        user: the Slurm user to act as; None: the owner of the token.
        sender: sends the requests, in place of HTTP; `addresses` and all that concerns connections are ignored then.
        dial: makes connections in place of the sockets of the machine.
        tls: for https addresses.
        timeouts: for the parts of one exchange.
        retry: limits attempts and pauses.
        rng: for the pauses between repetitions.
        connections: the largest number at a time.
        may_write: called before the bytes of each request that changes something are handed over, repetitions too. If
            it returns False, they are not sent. None: everything is sent.
        shield: awaits each request that changes something; None: such a request ends with its caller.
        longest_body: bytes of a response body; a longer one is an error.
        api_versions: to choose from, e.g. `(42,)` for v0.0.42 only; None: all.

    Raises:
        ValueError: an argument that cannot be used.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: TokenSource,
        *,
        user: str | None = None,
        sender: Sender | None = None,
        dial: Dial | None = None,
        tls: TlsOptions | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        rng: random.Random | None = None,
        connections: int = MOST_CONNECTIONS,
        may_write: MayWrite | None = None,
        shield: ShieldRequest | None = None,
        longest_body: int = LONGEST_BODY,
        api_versions: Collection[int] | None = None,
    ) -> None:
        versions = sorted(API_VERSIONS if api_versions is None else api_versions, reverse=True)
        if not versions or not set(versions) <= set(API_VERSIONS):
            raise ValueError(f"api_versions={api_versions}: one or more of {', '.join(map(str, API_VERSIONS))}")
        sender = sender or Transport(
            addresses,
            dial=dial,
            tls=tls,
            timeouts=timeouts,
            connections=connections,
            may_write=may_write,
            shield=shield,
            longest_body=longest_body,
        )
        self._sender = sender
        self._session = Session(
            sender,
            token,
            user=user,
            policy=retry or RetryPolicy(),
            rng=rng or random.Random(),  # noqa: S311 - spreads pauses, protects nothing
            versions=versions,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection. Closing twice is fine; a call afterwards fails."""
        await self._session.aclose()

    def observe(self, observer: Observe) -> None:
        """Call `observer` after each exchange, repetitions too, with method, path and status; 0: no answer came."""
        self._sender.observe = observer

    async def negotiate(self, **options: Unpack[CallOptions]) -> Capabilities:
        """Find the highest API version that both sides support, and the features of the release.

        The client repeats this if Slurm was upgraded or downgraded. It does not check the token: see
        :meth:`verify_token`.

        Raises:
            UnsupportedError: no common version, or a release older than 23.11.6.
        """
        return await self._session.negotiate(**options)

    @property
    def capabilities(self) -> Capabilities:
        """Return the features that were negotiated.

        Raises:
            RuntimeError: nothing has been negotiated yet.
        """
        return self._session.agreement.capabilities

    @property
    def release(self) -> Release:
        """Return the release of slurmrestd; raises as :attr:`capabilities` does."""
        return self.capabilities.release

    @property
    def cluster(self) -> str:
        """Return the cluster's name, empty if the release does not report it; raises as :attr:`capabilities` does."""
        return self._session.agreement.cluster

    @property
    def address(self) -> str:
        """Return the address in use."""
        return self._session.address

    async def ping(self, **options: Unpack[CallOptions]) -> Ping:
        """Read which slurmctld answer slurmrestd. Does not check the token."""
        return await self._session.call(cluster.PING, **options)

    async def verify_token(self, **options: Unpack[CallOptions]) -> None:
        """Make slurmctld check the token, by a cheap request.

        Raises:
            AuthenticationError: it is refused.
            ControllerUnavailableError: slurmctld is down; 23.11 reports the same for a refused token.
        """
        await self._session.call(cluster.DIAG, **options)

    async def diag(self, **options: Unpack[CallOptions]) -> Diagnostics:
        """Read slurmctld's counters."""
        return await self._session.call(cluster.DIAG, **options)

    async def conf(self, **options: Unpack[CallOptions]) -> SlurmConf:
        """Read slurm.conf.

        Raises:
            UnsupportedError: before v0.0.45.
        """
        return await self._session.call(cluster.CONF, **options)

    async def submit(self, description: JobDescription, **options: Unpack[CallOptions]) -> SubmitResult:
        """Queue a batch job, or an external one.

        Returns:
            the id of the job, and warnings of Slurm; the job exists also with a warning (held, cannot start yet).

        Raises:
            CapacityError: the same request may succeed later.
            RefusedError: it will be refused again; InvalidRequestError: this package refused it.
            OutcomeUnknownError: the job may exist: find it by its name before submitting again.
        """
        return await self._session.call(jobs.submit(description), **options)

    async def allocate(self, description: JobDescription, **options: Unpack[CallOptions]) -> SubmitResult:
        """Start a job without script at once, or not at all: the answer comes when it has its nodes.

        There is no blocking form: it would hold a thread of slurmrestd, and Slurm ends the job if its client closes the
        connection. The job belongs to the owner of the token, or to `as_user`; `user_id` in the description is refused,
        since slurmctld ignores it. In a partition that may preempt, even a *refused* allocation has preempted jobs: do
        not repeat it there.

        Raises:
            CapacityError: it cannot start now; nothing is queued.
            RefusedError: it will be refused again.
            OutcomeUnknownError: the job may exist.
            UnsupportedError: before v0.0.41.
        """
        return await self._session.call(jobs.allocate(description), **options)

    async def job(self, job_id: int, **options: Unpack[CallOptions]) -> Job:
        """Read one job, ended ones for MinJobAge too.

        Raises:
            NotFoundError: Slurm has no such job.
        """
        return await self._session.call(jobs.job(job_id), **options)

    async def job_states(self, job_ids: Iterable[int] | None = None, **options: Unpack[CallOptions]) -> JobStates:
        """Read the state words of jobs, all or those named: 80 bytes a job, where listing whole jobs takes 20 kB.

        Args:
            job_ids: None for all. Unknown ids are absent from the answer.
            options: see the class.

        Returns:
            words by id; see :class:`~slurmclient.models.listing.JobStates` for the meaning of an absent id.
        """
        if job_ids is None:
            return await self._session.call(jobs.job_states(()), **options)
        wanted = list(dict.fromkeys(job_ids))
        if not wanted:
            return JobStates()
        if len(wanted) <= MOST_IDS_IN_A_URL:
            return await self._session.call(jobs.job_states(wanted), **options)
        states = await self._session.call(jobs.job_states(()), **options)
        for job_id in states.keys() - set(wanted):
            del states[job_id]
        return states

    async def update_job(
        self, job_id: int, changes: JobDescription, **options: Unpack[CallOptions]
    ) -> tuple[SlurmWarning, ...]:
        """Change a job; empty texts and tuples of :data:`~slurmclient.models.description.CLEARABLE` fields clear
        the value.

        Raises:
            NotFoundError: Slurm has no such job.
            RefusedError: not allowed (2002, 2010), or not in this state of the job.
            OutcomeUnknownError: it may have been changed; a repetition does no harm.
        """
        return await self._session.call(jobs.update_job(job_id, changes), **options)

    async def cancel(
        self,
        job_ids: int | Collection[int],
        *,
        signal: str | int | None = None,
        flags: Collection[str] = (),
        **options: Unpack[CallOptions],
    ) -> tuple[CancelStatus, ...]:
        """End jobs, or send them a signal. Only as root or SlurmUser: a DELETE by another user can hang slurmctld.

        Args:
            job_ids: one or many; without any, nothing is sent.
            signal: None ends the job (TERM, KillWait, KILL); `"TERM"`, 15 … signals it. Checked here: slurmrestd
                answers an unknown one with an error, and sends SIGKILL.
            flags: BATCH_JOB, FULL_JOB, HURRY, FULL_STEPS_ONLY, NO_SIBLING_JOBS.
            options: see the class.

        Returns:
            one status for each job that Slurm reports.

        Raises:
            InvalidRequestError: a bad signal, flag or id.
            OutcomeUnknownError: it may have been done; a repetition does no harm unless slurmctld reuses ids.
        """
        ids = [job_ids] if isinstance(job_ids, int) else list(dict.fromkeys(job_ids))
        if not ids:
            return ()
        return await self._session.call(jobs.cancel(ids, signal, flags), **options)

    async def cancel_by_name(self, name: str, **options: Unpack[CallOptions]) -> tuple[CancelStatus, ...]:
        """End every live job of exactly this name, of every owner. Only as root or SlurmUser.

        Raises:
            InvalidRequestError: the name is empty, which means "all" to Slurm.
        """
        return await self._session.call(jobs.cancel_by_name(name), **options)

    async def find_jobs_by_name(self, name: str, **options: Unpack[CallOptions]) -> tuple[FoundJob, ...]:
        """Find the live jobs of exactly this name, without any change, in a millisecond. Only as root or SlurmUser.

        Ended jobs are not found. Use it to find the job of a submission whose answer was lost.

        Raises:
            InvalidRequestError: the name is empty.
        """
        return await self._session.call(jobs.find_jobs_by_name(name), **options)

    async def resources(self, job_id: int, **options: Unpack[CallOptions]) -> Listing[ResourceNode]:
        """Read the resources of a running job, down to cores and devices.

        Raises:
            RefusedError: the job is not running (2085).
            NotFoundError: Slurm has no such job.
            UnsupportedError: before v0.0.44.
        """
        return await self._session.call(jobs.resources(job_id), **options)

    async def nodes(self, **options: Unpack[CallOptions]) -> Listing[Node]:
        """Read every node: 1.5 kB each."""
        return await self._session.call(nodes.NODES, **options)

    async def nodes_if_changed(self, since: int, **options: Unpack[CallOptions]) -> Listing[Node] | None:
        """Read every node if one has changed since then, else return None. Before 26.05.3, always read them.

        Args:
            since: `last_update` of the listing read before.
            options: see the class.
        """
        return await self._session.call(nodes.nodes_if_changed(since), **options)

    async def node(self, name: str, **options: Unpack[CallOptions]) -> Node:
        """Read one node.

        Raises:
            NotFoundError: Slurm knows no such node.
        """
        return await self._session.call(nodes.node(name), **options)

    async def update_node(self, name: str, update: NodeUpdate, **options: Unpack[CallOptions]) -> None:
        """Change a node: drain, resume, … For root, SlurmUser and Administrators.

        Raises:
            NotFoundError: Slurm knows no such node.
            RefusedError: not allowed (2010), or not possible in its state (2028).
        """
        await self._session.call(nodes.update_node(name, update), **options)

    async def update_nodes(self, names: Collection[str], update: NodeUpdate, **options: Unpack[CallOptions]) -> None:
        """Change several nodes at once; one unknown name fails all.

        Raises:
            NotFoundError: Slurm does not know one of them.
            UnsupportedError: before 24.11.
        """
        if names:
            await self._session.call(nodes.update_nodes(names, update), **options)

    async def new_node(self, node: NewNode, **options: Unpack[CallOptions]) -> None:
        """Create a node, an external one by default.

        Raises:
            RefusedError: it exists (2168), or its description is wrong (-1, 22, 2028).
            UnsupportedError: before v0.0.44.
        """
        await self._session.call(nodes.new_node(node), **options)

    async def delete_node(self, name: str, **options: Unpack[CallOptions]) -> None:
        """Delete a dynamic or external node that is idle.

        Raises:
            NotFoundError: Slurm knows no such node.
            CapacityError: it is in use (2016).
        """
        await self._session.call(nodes.delete_node(name), **options)

    async def partitions(self, **options: Unpack[CallOptions]) -> Listing[Partition]:
        """Read every partition."""
        return await self._session.call(cluster.PARTITIONS, **options)

    async def reservations(self, **options: Unpack[CallOptions]) -> Listing[Reservation]:
        """Read every reservation."""
        return await self._session.call(cluster.RESERVATIONS, **options)

    async def licenses(self, **options: Unpack[CallOptions]) -> Listing[License]:
        """Read every license pool."""
        return await self._session.call(cluster.LICENSES, **options)

    async def shares(self, **options: Unpack[CallOptions]) -> Listing[Share]:
        """Read the fair shares.

        Raises:
            UnsupportedError: the cluster has no slurmdbd.
        """
        return await self._session.call(cluster.SHARES, **options)

    async def associations(self, **options: Unpack[CallOptions]) -> Listing[Association]:
        """Read the associations: users and accounts.

        Raises:
            UnsupportedError: the cluster has no slurmdbd, or this slurmrestd does not serve it.
        """
        return await self._session.call(cluster.ASSOCIATIONS, **options)

    async def job_record(self, job_id: int, **options: Unpack[CallOptions]) -> JobRecord | None:
        """Read the newest job of this id as slurmdbd keeps it; None: it knows no such job, or not yet.

        Raises:
            UnsupportedError: the cluster has no slurmdbd, or this slurmrestd does not serve it.
        """
        return await self._session.call(job_records.job_record(job_id), **options)

    async def update_job_record(
        self, job_id: int, wait_status: int, comment: str | None = None, **options: Unpack[CallOptions]
    ) -> None:
        """Replace the derived exit code of a job of slurmdbd, and its comment. For operators of slurmdbd.

        Raises:
            RefusedError: not allowed.
            UnsupportedError: before v0.0.44, or without slurmdbd.
        """
        await self._session.call(job_records.update_job_record(job_id, wait_status, comment), **options)
