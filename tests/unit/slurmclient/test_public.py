from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import pkgutil
import re
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import slurmclient
from slurmclient import SlurmClient
from tests.builders.byte_server import ok
from tests.builders.slurmrestd_fake import meta

FOLDER = Path(slurmclient.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))


def modules() -> list[ModuleType]:
    return [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(slurmclient.__path__, f"{slurmclient.__name__}.")
    ]


def test_the_public_names_are_exactly_what_the_package_imports() -> None:
    tree = ast.parse((FOLDER / "__init__.py").read_text())
    imported = {
        name.asname or name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert set(slurmclient.__all__) == imported
    assert len(slurmclient.__all__) == len(set(slurmclient.__all__))


def test_every_class_that_a_caller_meets_is_public() -> None:
    public = set(slurmclient.__all__)
    for module in modules():
        if module.__name__.startswith("slurmclient.models.") or module.__name__ == "slurmclient.errors":
            for name, value in vars(module).items():
                if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                    assert name in public, f"{module.__name__}.{name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_one_file_knows_an_http_library_and_nothing_knows_the_extender(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert "extender" not in imported
    known = {"connection.py": {"httptools"}}.get(path.name, set())
    assert imported & {"httpx", "httpcore", "h11", "httptools", "aiohttp"} <= known


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_every_module_says_what_it_is_for(module: ModuleType) -> None:
    assert module.__doc__


def test_every_call_of_the_client_is_documented() -> None:
    for name, method in inspect.getmembers(SlurmClient, inspect.isfunction):
        if not name.startswith("_"):
            assert method.__doc__, name


def test_there_is_no_way_to_list_all_jobs_with_their_details() -> None:
    assert not hasattr(SlurmClient, "jobs")
    paths = re.compile(r'path\("jobs"\)')
    uses = [line for path in MODULES for line in path.read_text().splitlines() if paths.search(line)]
    assert all('"DELETE"' in line for line in uses)


async def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The code of the package's docstring, against a server on a real socket, with a key in place of the cluster's."""
    (tmp_path / "jwt.key").write_bytes(b"k" * 32)
    lines: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
            line = head.split(b" HTTP/")[0].decode()
            lines.append(line)
            payloads: dict[str, dict[str, object]] = {
                "GET /slurm/v0.0.45/ping": {"pings": []},
                "POST /slurm/v0.0.45/job/submit": {"job_id": 7},
                "GET /slurm/v0.0.45/jobs/state?job_id=7": {"jobs": [{"job_id": "7", "state": ["PENDING"]}]},
                "DELETE /slurm/v0.0.45/jobs": {
                    "status": [{"job_id": {"set": True, "number": 7}, "error": {"code": 0}}]
                },
            }
            writer.write(ok(json.dumps({**payloads[line], "meta": meta(45, "26.05.5")}).encode()))
            await writer.drain()
            if line.startswith("DELETE"):
                break
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    example = re.search(r"python -c '\n(.*?)'\n", slurmclient.__doc__ or "", re.DOTALL)
    assert example
    code = textwrap.dedent(example[1]).replace("asyncio.run(main())", "")
    code = code.replace("http://127.0.0.1:6820", f"http://127.0.0.1:{port}")
    code = code.replace("/etc/slurm/jwt.key", str(tmp_path / "jwt.key"))
    names: dict[str, object] = {}
    exec(compile(code, "example", "exec"), names)
    main = names["main"]
    assert inspect.iscoroutinefunction(main)
    await main()
    server.close()
    await server.wait_closed()
    printed = capsys.readouterr().out
    assert printed.startswith("26.05.5 7 {7: frozenset({'PENDING'})}\n")
    assert "CancelStatus(job_id=7, code=0" in printed
    assert len(lines) == 4
