"""The bare pipeline: the calls that placing a Pod or a gang takes, and nothing else. The floor of what the parts allow.

Watch for gated Pods, `job/allocate` of an external job, GET the job, one PATCH that ungates, `/filter`, `/bind`; when
the Pod is gone, a cancel. It remembers nothing, repeats nothing and survives nothing, reads of an answer what it needs,
and hears of its own Pods alone.

`python -m bench.real.bare PORT KUBECONFIG SLURMRESTD TOKENFILE MODE PARTITION`: SLURMRESTD is a URL with its version.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn

from bench.real.fleet import BARE
from bench.real.jobs import AT_ONCE, a_job
from bench.real.load import UNGATING
from extender.domain.wellknown import GANG, GANG_SIZE
from extender.kube.connection import STRATEGIC_PATCH, ApiConnection, connect
from extender.kube.errors import ApiUnavailable
from slurmclient import JobDescription
from slurmclient.hostlist import expand
from slurmclient.wire.description import write_description

PODS = "/api/v1/pods"
OWN = {"fieldSelector": f"spec.schedulerName={BARE}"}
AGAIN_S = 0.01
"""Seconds before a watch that broke is opened again."""

Json = dict[str, Any]


class Slurm:
    """Three calls, as plain as they get."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": "root"}
        self._url = url
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE), headers=headers)

    async def allocate(self, wishes: JobDescription) -> int:
        """The id of the job."""
        body = write_description(wishes) | ({"flags": ["EXTERNAL_JOB"]} if wishes.external else {})
        return int((await self._send("POST", "/job/allocate", {"job": body}))["job_id"])

    async def nodes_of(self, job_id: int) -> tuple[str, ...]:
        """The nodes of a job, in the order of Slurm's node table."""
        return expand(str((await self._send("GET", f"/job/{job_id}"))["jobs"][0]["nodes"]))

    async def cancel(self, job_id: int) -> None:
        """End it."""
        await self._send("DELETE", "/jobs", {"jobs": [str(job_id)]})

    async def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        async with self._session.request(method, self._url + path, json=body) as answer:
            said: Json = json.loads(await answer.read())
        if said["errors"]:
            raise RuntimeError(f"{method} {path}: {said['errors']}")
        return said


class Pipeline:
    """Places every gated Pod of the scheduler name `bare`."""

    def __init__(self, kube: ApiConnection, slurm: Slurm, external: bool, partition: str) -> None:
        self._kube = kube
        self._slurm = slurm
        self._external = external
        self._partition = partition
        self._jobs: dict[str, asyncio.Task[int]] = {}
        self._nodes: dict[str, str] = {}
        self._gangs: dict[str, list[Json]] = {}
        self._ended: set[int] = set()
        self.ready = False
        """From here on no Pod is overlooked."""

    async def watch(self) -> None:
        """For ever. The API server ends a watch whose client is slow."""
        version = await self._listed()
        while True:
            query = {"watch": "true", "resourceVersion": version, **OWN}
            try:
                async with self._kube.watch(PODS, query, silence_s=3600) as lines:
                    async for line in lines:
                        change = json.loads(line)
                        version = change["object"]["metadata"]["resourceVersion"]
                        self._changed(change["type"], change["object"])
            except ApiUnavailable:
                await asyncio.sleep(AGAIN_S)

    async def _listed(self) -> str:
        listed = json.loads((await self._kube.request("GET", PODS, query=OWN)).body)
        for pod in listed["items"]:
            self._changed("ADDED", pod)
        self.ready = True
        return str(listed["metadata"]["resourceVersion"])

    def _changed(self, kind: str, pod: Json) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if kind == "DELETED" and uid in self._jobs:
            self._jobs[uid] = asyncio.create_task(self._end(self._jobs[uid]))
        elif kind == "ADDED" and spec.get("schedulingGates"):
            self._arrived(pod["metadata"])

    def _arrived(self, meta: Json) -> None:
        """Place a single Pod at once, and a gang with its last member."""
        annotations = meta.get("annotations") or {}
        gang, size = str(annotations.get(GANG, meta["uid"])), int(annotations.get(GANG_SIZE, 1))
        members = self._gangs.setdefault(gang, [])
        members.append(meta)
        if len(members) < size:
            return
        placed = asyncio.create_task(self._place(self._gangs.pop(gang)))
        placed.add_done_callback(_fatal)
        self._jobs |= dict.fromkeys((one["uid"] for one in members), placed)

    async def _place(self, members: list[Json]) -> int:
        wishes = a_job(
            f"bare-{members[0]['name']}",
            self._partition,
            immediate=True,
            external=True if self._external else None,
            **({"nodes": str(len(members)), "tasks": len(members)} if len(members) > 1 else {}),
        )
        job_id = await self._slurm.allocate(wishes)
        nodes = await self._slurm.nodes_of(job_id)
        self._nodes |= zip((one["uid"] for one in members), nodes, strict=True)
        await asyncio.gather(*map(self._ungate, members))
        return job_id

    async def _ungate(self, meta: Json) -> None:
        await self._kube.request(
            "PATCH", _path(meta["namespace"], meta["name"]), body=UNGATING, content_type=STRATEGIC_PATCH
        )

    async def _end(self, placed: asyncio.Task[int]) -> int:
        job_id = await placed
        if job_id not in self._ended:
            self._ended.add(job_id)
            await self._slurm.cancel(job_id)
        return job_id

    async def answer(self, path: str, arguments: Json) -> Json:
        """What kube-scheduler asks."""
        if path.endswith("/filter"):
            node = self._nodes.get(arguments["Pod"]["metadata"]["uid"])
            return {"NodeNames": [] if node is None else [node], "Error": ""}
        target = {"apiVersion": "v1", "kind": "Node", "name": arguments["Node"]}
        meta = {"name": arguments["PodName"], "uid": arguments["PodUID"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await self._kube.request("POST", f"{_path(arguments['PodNamespace'], arguments['PodName'])}/binding", body=body)
        return {"Error": ""}


def _fatal(task: asyncio.Task[int]) -> None:
    """A floor with a hole in it is none."""
    if not task.cancelled() and (error := task.exception()) is not None:
        print(f"the bare pipeline failed: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


async def serve(port: int, kubeconfig: str, slurm: Callable[[], Slurm], *, external: bool, partition: str) -> None:
    """Until the process is ended."""
    kube = await connect(kubeconfig, environ=os.environ)
    pipeline = Pipeline(kube, slurm(), external, partition)

    async def app(scope: Json, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["path"] == "/ready":
            status, answer = (200 if pipeline.ready else 503), b"{}"
        else:
            status, answer = 200, json.dumps(await pipeline.answer(scope["path"], json.loads(body))).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    await asyncio.gather(pipeline.watch(), server.serve(), ends_with_its_input())


async def ends_with_its_input() -> None:
    """End this process when the one that started it is gone."""
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


def main() -> None:
    """The process."""
    port, kubeconfig, slurmrestd, token, mode, partition = sys.argv[1:]
    key = Path(token).read_text(encoding="ascii").strip()
    external = mode == "external"
    asyncio.run(serve(int(port), kubeconfig, lambda: Slurm(slurmrestd, key), external=external, partition=partition))


if __name__ == "__main__":
    main()
