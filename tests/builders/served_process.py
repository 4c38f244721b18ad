"""Run `slurm-extender serve` as a process of its own, whose Slurm and Kubernetes do not answer."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

TOP = Path(__file__).parents[2]
CLOSED_PORT = "127.0.0.1:1"
KUBECONFIG = f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://{CLOSED_PORT}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""
HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\n"


def free_ports(number: int) -> list[int]:
    """Return ports on which nothing listens now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def written_config(folder: Path, body: str) -> Path:
    """Write a configuration whose servers do not answer; `body` is the rest of it."""
    (folder / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    file = folder / "config.yaml"
    slurm = f"slurm: {{token: hush, addresses: ['http://{CLOSED_PORT}']}}\n"
    file.write_text(f"{HEAD}{slurm}{body}", encoding="utf-8")
    return file


@asynccontextmanager
async def served(file: Path, descriptors: int | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the process during the block. `descriptors` is its hard limit; its soft limit is half of that."""

    def limited() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors // 2, descriptors))

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "extender", "serve", "--config", str(file)),
        cwd=TOP,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=limited,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
