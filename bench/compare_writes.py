"""Compare what two checkouts write to Slurm and to Kubernetes, Pod by Pod, in the same simulated runs.

    python -m bench.compare_writes BASELINE CHANGED [--seeds 0:100] [--renames FILE]

Runs each seed without faults, in one process per checkout with that checkout's `.venv/bin/python`. For each Pod the
program counts writes by verb, resource and the fields that the body sets; values and order are ignored. It prints the
differences and exits with 1 if there are any.

FILE maps renamed fields or resources, one `OLD NEW` per line; lines that start with `#` are ignored.

The recorder depends on no module of the simulator that could be renamed: the simulated API server and slurmrestd are
ASGI applications served by uvicorn, so it wraps the application that `uvicorn.Config` is given. Links get a constant
latency, because a drawn one would change all later draws after a single additional request.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

LAYOUTS = ("simulator.runner", "simulator.simulate", "extender.sim.simulate")
"""Modules that have had the function `simulate`, the newest first."""

LATENCY_S = 0.001
NO_POD = "no Pod"
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

Recorded = dict[str, dict[str, dict[str, int]]]
"""Seed -> Pod -> write -> how often."""


class Recorder:
    """Record the writes of one run. `pods` maps ids of placeholder jobs to Pods."""

    def __init__(self) -> None:
        self.writes: dict[str, Counter[str]] = {}
        self._pods: dict[str, str] = {}

    def wrap(self, app: Any) -> Any:
        """Return an ASGI application that records each write and passes it on to `app`."""

        async def recording(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["method"] not in WRITES:
                await app(scope, receive, send)
                return
            sent, answered = bytearray(), bytearray()

            async def receive_body() -> Any:
                message = await receive()
                sent.extend(message.get("body", b""))
                return message

            async def send_body(message: Any) -> None:
                answered.extend(message.get("body", b""))
                await send(message)

            try:
                await app(scope, receive_body, send_body)
            finally:
                self._record(scope["method"], scope["path"], _parsed(sent), _parsed(answered))

        return recording

    def _record(self, method: str, path: str, body: Any, answer: Any) -> None:
        if found := re.fullmatch(r"/slurm/v[\d.]+/(.*)", path):
            job = body.get("job") if isinstance(body, dict) else None
            if isinstance(job, dict) and isinstance(answer, dict) and answer.get("job_id"):
                self._pods[str(answer["job_id"])] = _pod_of_job(job.get("name", ""))
            resource, pods = self._slurm(found[1], body)
            shape = f"Slurm {method} {resource}"
        elif found := re.fullmatch(r"/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/([^/]+)/(?=.))?(.*)", path):
            resource, pod = _kubernetes(found[1] or "", found[2], body)
            shape, pods = f"Kubernetes {method} {resource}", [pod]
        else:
            return
        write = f"{shape}: {', '.join(sorted(set(fields(body))))}"
        for pod in pods:
            self.writes.setdefault(pod, Counter())[write] += 1

    def _slurm(self, path: str, body: Any) -> tuple[str, list[str]]:
        """Return the resource of a request to slurmrestd, and the Pods concerned."""
        kind, _, name = path.strip("/").partition("/")
        content = body if isinstance(body, dict) else {}
        if isinstance(content.get("job"), dict):
            return path, [_pod_of_job(content["job"].get("name", ""))]
        if kind == "job":
            return "job/ID", [self._pods.get(name, NO_POD)]
        if kind == "jobs":
            named = [_pod_of_job(content["job_name"])] if content.get("job_name") else []
            return kind, named + [self._pods.get(str(one), NO_POD) for one in content.get("jobs") or ()]
        return (f"{kind}/NAME", [f"Slurm node {name}"]) if kind == "node" else (path, [NO_POD])


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each leaf, with `[]` for list entries; texts that hold JSON objects count as objects."""
    if isinstance(value, str) and value.startswith("{"):
        value = _parsed(value.encode()) or value
    if isinstance(value, dict) and {"op", "path"} <= value.keys():
        yield f"{path}{value['op']} {value['path']}"
    elif isinstance(value, dict) and value:
        for key, one in value.items():
            yield from fields(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for one in value:
            variable = re.match(r"([A-Z][A-Z0-9_]*)=", one) if isinstance(one, str) else None
            yield from [f"{path}.{variable[1]}"] if variable else fields(one, f"{path}[]")
    elif path:
        yield path


def _kubernetes(namespace: str, path: str, body: Any) -> tuple[str, str]:
    plural, name, *rest = [*path.split("/"), ""]
    resource = "/".join([plural, *filter(None, rest)])
    about = body.get("regarding") if isinstance(body, dict) else None
    if plural == "pods":
        return resource, f"{namespace}/{name}"
    if plural == "events" and isinstance(about, dict) and about.get("kind") == "Pod":
        return resource, f"{about.get('namespace')}/{about.get('name')}"
    return resource, f"Node {name}" if plural == "nodes" else NO_POD


def _pod_of_job(name: str) -> str:
    """Return the Pod of a placeholder job: the name of the job is that of the Pod with a suffix."""
    return name.rpartition("-")[0] or NO_POD


def _parsed(data: bytes | bytearray) -> Any:
    try:
        return json.loads(bytes(data))
    except ValueError:
        return None


def record(seeds: range, pods: int, days: float) -> Recorded:
    """Run the seeds in this process, with the simulator of the checkout that is first on `sys.path`."""
    import uvicorn  # noqa: PLC0415 - the caller of the two processes does without

    runner = _runner()
    package = runner.__name__.rpartition(".")[0]
    options = import_module(f"{package}.options").Options
    network = import_module(f"{package}.network.memory").Network
    network.latency = property(lambda _self: lambda: LATENCY_S, lambda _self, _value: None)
    current: list[Recorder] = []
    original = uvicorn.Config.__init__

    def with_recorder(self: Any, app: Any, *args: Any, **kwargs: Any) -> None:
        original(self, current[-1].wrap(app), *args, **kwargs)

    uvicorn.Config.__init__ = with_recorder  # type: ignore[method-assign]
    recorded: Recorded = {}
    for seed in seeds:
        current.append(Recorder())
        runner.simulate(options(seed, pods, days=days, faults=frozenset()))
        recorded[str(seed)] = {pod: dict(writes) for pod, writes in sorted(current[-1].writes.items())}
    return recorded


def _runner() -> Any:
    for name in LAYOUTS:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or "?"):
                raise
    raise SystemExit(f"no simulator: none of {', '.join(LAYOUTS)} can be imported")


def record_in(checkout: Path, arguments: argparse.Namespace) -> Recorded:
    """Record in a process of that checkout. Raises `subprocess.CalledProcessError`."""
    command = [str(checkout / ".venv/bin/python"), "-P", str(Path(__file__).resolve()), "--record"]
    command += ["--seeds", arguments.seeds, "--pods", str(arguments.pods), "--days", str(arguments.days)]
    environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    recorded: Recorded = json.loads(done.stdout)
    return recorded


def renamed(recorded: Recorded, renames: list[tuple[str, str]]) -> Recorded:
    """Return the record with renamed fields and resources under their new names."""

    def new_name(write: str) -> str:
        head, _, tail = write.partition(": ")
        for old, new in renames:
            pattern = rf"(?<![\w/-]){re.escape(old)}(?![\w/-])"
            head, tail = (re.sub(pattern, new.replace("\\", "\\\\"), part) for part in (head, tail))
        return f"{head}: {', '.join(sorted(tail.split(', ')))}"

    found: Recorded = {}
    for seed, pods in recorded.items():
        for pod, writes in pods.items():
            counts = found.setdefault(seed, {}).setdefault(pod, {})
            for write, count in writes.items():
                counts[new_name(write)] = counts.get(new_name(write), 0) + count
    return found


def differences(before: Recorded, after: Recorded) -> Iterator[tuple[str, str, str, int, int]]:
    """Yield (seed, Pod, write, count before, count after) where the counts differ."""
    for seed in sorted(before.keys() | after.keys(), key=int):
        old, new = before.get(seed, {}), after.get(seed, {})
        for pod in sorted(old.keys() | new.keys()):
            was, now = old.get(pod, {}), new.get(pod, {})
            for write in sorted(was.keys() | now.keys()):
                if was.get(write, 0) != now.get(write, 0):
                    yield seed, pod, write, was.get(write, 0), now.get(write, 0)


def main(argv: list[str] | None = None) -> int:
    """Run the comparison, or with `--record` one side of it."""
    parser = argparse.ArgumentParser(description="Compare the writes of two checkouts in the same simulated runs.")
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT", help="the baseline, then the other one")
    parser.add_argument("--seeds", default="0:100", metavar="FROM:TO", help="TO is not included")
    parser.add_argument("--pods", type=int, default=12)
    parser.add_argument("--days", type=float, default=0.006, help="virtual days of each run")
    parser.add_argument("--renames", type=Path, help="a file with one `OLD NEW` per line")
    parser.add_argument("--record", action="store_true", help="print the writes of this interpreter's checkout as JSON")
    given = parser.parse_args(argv)
    seeds = range(*map(int, given.seeds.split(":")))
    if given.record:
        print(json.dumps(record(seeds, given.pods, given.days)))
        return 0
    if len(given.checkouts) != 2:
        parser.error("give two checkouts")
    before, after = (record_in(one.resolve(), given) for one in given.checkouts)
    lines = given.renames.read_text(encoding="utf-8").splitlines() if given.renames else []
    renames = [(line.split()[0], line.split()[1]) for line in lines if line.strip() and not line.startswith("#")]
    before = renamed(before, renames)
    found = list(differences(before, after))
    total = Counter[str]()
    for seed, pod, write, was, now in found:
        print(f"seed {seed}, {pod}: {was} before, {now} after: {write}")
        total[write] += now - was
    for write, change in total.most_common():
        print(f"in all {change:+d}: {write}")
    count = sum(sum(writes.values()) for pods in before.values() for writes in pods.values())
    seeds_changed = len({seed for seed, *_ in found})
    print(f"{len(seeds)} seeds, {count} writes before; {len(found)} differences in {seeds_changed} seeds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
