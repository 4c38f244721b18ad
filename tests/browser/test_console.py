"""The console in headless Chromium: what it shows, that it updates by itself, and that no name becomes markup."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from extender.config.load import parse
from extender.http.app import Services, endpoints
from extender.observability.metrics.registry import Metrics
from tests.builders.browser import browser
from tests.builders.console_pictures import Recorded, record
from tests.builders.services import FakeServices, StillClock

pytestmark = pytest.mark.browser

HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"
PICTURES = os.environ.get("CONSOLE_PICTURES", "")
"""A folder: the screenshots are written there."""

HOSTILE = (
    "<script>document.title='broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    "\\u202egpj.exe",
)
SEARCH = "document.querySelector('#search')"
MEASURE = """
window.blocked = [];
new PerformanceObserver((list) => list.getEntries().forEach((one) => window.blocked.push(one.duration)))
  .observe({ type: 'longtask' });
1
"""
LONGEST_BLOCK_MS = 1500.0
"""For which the page may not answer its user, on a machine that has other work. Without load it is a tenth of that."""

ROWS = "document.querySelectorAll('#workloads tr').length"


class MovingClock(StillClock):
    """Moves on by a second with each look: no answer of the console is old."""

    def now(self) -> float:
        self.time += 1.0
        return self.time


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return record()


@pytest.fixture
def debug(recorded: Recorded) -> Recorded:
    return Recorded(recorded.state, recorded.pods)


@pytest.fixture
def address(debug: Recorded) -> Iterator[str]:
    """The debug port of a process of its own thread."""
    clock = MovingClock()
    services = Services(FakeServices(debug=debug), Metrics(clock), clock)
    app = next(one.app for one in endpoints(parse(HEAD, "c.yaml"), services) if "observability.debugBind" in one.names)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


async def test_the_queue_the_nodes_and_a_timeline_are_shown(address: str, debug: Recorded, tmp_path: Path) -> None:
    async with browser(tmp_path) as page:
        await page.size(1280, 900)
        await page.open(f"{address}/debug/console")
        await page.until(f"{ROWS} === {len(debug.state['workloads'])}")
        assert await page.js("document.querySelectorAll('#partitions .card').length") == len(debug.state["partitions"])
        await page.until("document.querySelector('#age').textContent.startsWith('updated')")
        if PICTURES:
            await page.screenshot(Path(PICTURES, "console-queue.png"))
            await page.size(1280, 900, dark=True)
            await page.screenshot(Path(PICTURES, "console-dark.png"))
        await page.js("location.hash = '#nodes'")
        await page.until(f"document.querySelectorAll('#nodes .card').length === {len(debug.state['nodes'])}")
        on_nodes = await page.js("document.querySelector('#nodes').textContent")
        assert "research/llama-train-0 job " in on_nodes
        if PICTURES:
            await page.size(1280, 900)
            await page.screenshot(Path(PICTURES, "console-nodes.png"))
        placed = next(row for row in debug.state["workloads"] if row["pods"] == ["research/llama-train-0"])
        await page.js(f"location.hash = '#pod/{placed['uid']}'")
        steps = len(debug.pods[placed["uid"]]["timeline"])
        await page.until(f"document.querySelectorAll('.timeline li').length === {steps}")
        assert "BOUND" in await page.js("document.querySelector('.timeline').textContent")
        if PICTURES:
            await page.screenshot(Path(PICTURES, "console-pod.png"))
    assert page.said == []
    assert {one.split("/debug/console")[0] for one in page.requested} == {address}


async def test_the_page_updates_by_itself_keeps_the_focus_and_pauses(
    address: str, debug: Recorded, tmp_path: Path
) -> None:
    async with browser(tmp_path) as page:
        await page.open(f"{address}/debug/console")
        await page.until(f"{ROWS} > 2")
        await page.js("document.querySelector('#workloads a').focus()")
        first = await page.js("document.activeElement.textContent")
        debug.state["workloads"].append({**debug.state["workloads"][0], "uid": "new", "pods": ["a/new"], "why": "New."})
        await page.until("document.querySelector('#workloads').textContent.includes('a/new')")
        assert await page.js("document.activeElement.textContent") == first
        await page.js("document.querySelector('#pause').click()")
        await page.until("document.querySelector('#age').textContent === 'paused'")
        searched = len(debug.searches)
        await asyncio.sleep(3)
        assert len(debug.searches) <= searched + 1


async def test_no_name_and_no_reason_becomes_markup(address: str, debug: Recorded, tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        row = {**debug.state["workloads"][0], "uid": f"h{number}", "pods": [text], "why": text, "kind": text}
        debug.state["workloads"].append({**row, "partition": text, "nodes": [text]})
        debug.state["nodes"].append({**debug.state["nodes"][0], "name": text, "state": text, "reason": text})
        debug.state["partitions"].append({**debug.state["partitions"][0], "name": text, "reasons": [{"reason": text}]})
        debug.pods[f"h{number}"] = {**row, "facts": [{"name": text, "value": text}], "timeline": [], "faults": [text]}
    async with browser(tmp_path) as page:
        await page.open(f"{address}/debug/console")
        await page.until(f"{ROWS} === {len(debug.state['workloads'])}")
        for view in ("#nodes", "#pod/h0", "#pod/h1", "#pod/..%2f..", "#<img src=x>", "#queue"):
            await page.js(f"location.hash = {view!r}")
            await asyncio.sleep(0.3)
        assert await page.js("document.title") == "slurm-extender"
        assert await page.js("document.querySelectorAll('img, main script, iframe').length") == 0
        shown = await page.js("document.querySelector('#workloads').textContent")
    assert all(text in shown for text in HOSTILE)


async def test_ten_thousand_rows_leave_the_page_usable(address: str, debug: Recorded, tmp_path: Path) -> None:
    row, node = debug.state["workloads"][0], debug.state["nodes"][0]
    debug.state["workloads"] = [{**row, "uid": f"u{number}", "pods": [f"a/p{number}"]} for number in range(10_000)]
    debug.state["nodes"] = [{**node, "name": f"n{number}"} for number in range(10_000)]
    async with browser(tmp_path) as page:
        await page.open(f"{address}/debug/console")
        await page.until(f"{ROWS} === 500", within_s=120)
        shown = "document.querySelector('#shown').textContent"
        assert await page.js(shown) == "500 of 10,000: search to narrow them"
        await page.js(f"window.first = document.querySelector('#workloads tr'); {MEASURE}")
        searched = len(debug.searches)
        await asyncio.sleep(8)
        assert len(debug.searches) > searched + 1
        assert await page.js("window.first === document.querySelector('#workloads tr')")
        await page.js("location.hash = '#nodes'")
        await page.until("document.querySelectorAll('#nodes .card').length === 500")
        await page.js("location.hash = '#queue'")
        await page.js(f"{SEARCH}.value = 'a/p9876'; {SEARCH}.dispatchEvent(new Event('input'))")
        await page.until(f"{ROWS} === 1")
        assert await page.js("document.querySelectorAll('*').length") < 30_000
        assert await page.js("Math.max(0, ...window.blocked)") < LONGEST_BLOCK_MS


async def test_an_extender_that_is_away_is_said_and_the_last_rows_stay(
    address: str, debug: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with browser(tmp_path) as page:
        await page.open(f"{address}/debug/console")
        await page.until(f"{ROWS} > 2")

        async def away(_query: object) -> None:
            raise RuntimeError("away")

        monkeypatch.setattr(debug, "console", away)
        await page.until("!document.querySelector('#note').hidden")
        assert "does not answer" in await page.js("document.querySelector('#note').textContent")
        assert await page.js(ROWS) > 2
