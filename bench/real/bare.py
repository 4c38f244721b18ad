"""The bare pipeline: the calls that placing a Pod takes, and nothing else. The floor of what the parts allow.

Watch for gated Pods, `job/allocate` of an external job, GET the job, one PATCH that ungates, `/filter`, `/bind`; when
the Pod is gone, a cancel. It remembers nothing, repeats nothing and survives nothing.

`python -m bench.real.bare PORT KUBECONFIG SLURMRESTD TOKENFILE MODE PARTITION`
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import uvicorn

from bench.real.fleet import BARE
from bench.real.jobs import AT_ONCE, a_job
from extender.domain.wellknown import GATE
from extender.kube.connection import STRATEGIC_PATCH, Connection, connect
from slurmclient import SlurmClient, TokenFile

PODS = "/api/v1/pods"
Json = dict[str, Any]


class Pipeline:
    """Places every gated Pod of the scheduler name `bare`."""

    def __init__(self, kube: Connection, slurm: SlurmClient, external: bool, partition: str) -> None:
        self._kube = kube
        self._slurm = slurm
        self._external = external
        self._partition = partition
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._jobs: dict[str, asyncio.Task[int]] = {}
        self._nodes: dict[str, str] = {}

    async def watch(self) -> None:
        """For ever."""
        version = json.loads((await self._kube.request("GET", PODS)).body)["metadata"]["resourceVersion"]
        while True:  # the API server ends a watch whose client is slow
            query = {"watch": "true", "resourceVersion": version}
            async with self._kube.watch(PODS, query, silence_s=3600) as lines:
                async for line in lines:
                    change = json.loads(line)
                    version = change["object"]["metadata"]["resourceVersion"]
                    self._changed(change["type"], change["object"])

    def _changed(self, kind: str, pod: Json) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if spec.get("schedulerName") != BARE:
            return
        if kind == "DELETED" and uid in self._jobs:
            self._jobs[uid] = asyncio.create_task(self._end(self._jobs[uid]))
        elif kind == "ADDED" and spec.get("schedulingGates"):
            self._jobs[uid] = asyncio.create_task(self._place(pod["metadata"]))

    async def _place(self, meta: Json) -> int:
        wishes = a_job(
            f"bare-{meta['name']}", self._partition, immediate=True, external=True if self._external else None
        )
        async with self._slots:
            made = await self._slurm.allocate(wishes)
        async with self._slots:
            job = await self._slurm.job(made.job_id)
        (self._nodes[meta["uid"]],) = job.nodes
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        await self._kube.request(
            "PATCH", _path(meta["namespace"], meta["name"]), body=patch, content_type=STRATEGIC_PATCH
        )
        return made.job_id

    async def _end(self, placed: asyncio.Task[int]) -> int:
        job_id = await placed
        async with self._slots:
            await self._slurm.cancel([job_id])
        return job_id

    async def answer(self, path: str, asked: Json) -> Json:
        """What kube-scheduler asks."""
        if path.endswith("/filter"):
            node = self._nodes.get(asked["Pod"]["metadata"]["uid"])
            return {"NodeNames": [] if node is None else [node], "Error": ""}
        target = {"apiVersion": "v1", "kind": "Node", "name": asked["Node"]}
        meta = {"name": asked["PodName"], "uid": asked["PodUID"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await self._kube.request("POST", f"{_path(asked['PodNamespace'], asked['PodName'])}/binding", body=body)
        return {"Error": ""}


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


async def serve(port: int, kubeconfig: str, slurm: SlurmClient, mode: str, partition: str) -> None:
    """Until the process is ended."""
    kube = await connect(kubeconfig, environ=os.environ)
    pipeline = Pipeline(kube, slurm, mode == "external", partition)

    async def app(scope: Json, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        answer = json.dumps(await pipeline.answer(scope["path"], json.loads(body))).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    await asyncio.gather(pipeline.watch(), server.serve())


def main() -> None:
    """The process."""
    port, kubeconfig, slurmrestd, token, mode, partition = sys.argv[1:]
    slurm = SlurmClient([slurmrestd], TokenFile(token), user="root", connections=AT_ONCE)
    asyncio.run(serve(int(port), kubeconfig, slurm, mode, partition))


if __name__ == "__main__":
    main()
