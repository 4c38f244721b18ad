"""The fence script in a real bash, against hooks on loopback and with Slurm's commands that note what they are told."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from extender.domain.jobs.identity import encode_mark
from extender.domain.jobs.job import Mark
from extender.domain.nodes.drain_reasons import drainer, earlier_reason, is_own_drain, reason
from tests.builders.hook_server import TOKEN, HookServer, hooks
from tests.builders.node_script import run_node_script
from tests.builders.slurm_sites import until

PROLOG = "prolog_slurmctld"
MARK = encode_mark(Mark("cluster", "slurm", "workload", 1))
HOSTILE_JOBS = Path(__file__).parents[2] / "fixtures" / "hostile_jobs" / "26.05.json"
NOBODY = "http://127.0.0.1:9"
SCONTROL = """#!/bin/bash
echo "$*" >>{told}
case "$*" in
  *"show node"*) echo "NodeName=node-1 State={state} Reason={why}" && exit 0 ;;
  "show config") printf 'PrologEpilogTimeout     = 15\\n' && exit 0 ;;
  "show hostnames"*) {hostnames} && exit 0 ;;
esac
exit {code}
"""
SQUEUE = """#!/bin/bash
job="$*" && job=${{job##*--jobs=}} job=${{job%% *}} state={job} mark='(null)'
echo "squeue $job" >>{told}
[[ $job == 17 ]] && state={own} mark={mark}
[[ $state ]] || exit 1
printf '%-12s%-24s%-12s%-1025s\\n' "$job" "$state" 0 "$mark"
"""


@dataclass
class Run:
    """What came of one run."""

    code: int
    said: list[str]
    """What Slurm's commands were told."""


@dataclass
class Script:
    """One site's script and notes. Runs it as slurmd does: no PATH but what it sets itself, and slurmd's variables."""

    folder: Path

    @property
    def notes(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder / "notes")) for path in (self.folder / "notes").glob("*"))

    def leave(self, *names: str) -> None:
        for name in names:
            (self.folder / "notes" / name).touch()

    async def __call__(
        self,
        url: str,
        context: str = "epilog_slurmd",
        *,
        extra: str = MARK,
        proof: str = MARK,
        nodes: str = "node-1",
        state: str = "IDLE",
        why: str = "said",
        job: str = "RUNNING",
        own: str = "CONFIGURING",
        code: int = 0,
        hold: int = 4,
        hostnames: str = "echo node-1 && echo node-2",
    ) -> Run:
        options: dict[str, object] = {
            "--hooks": url,
            "--key-file": self.folder / "the key",
            "--hold": hold,
            "--notes": self.folder / "notes",
        }
        told = self.folder / "told"
        commands = {
            "scontrol": SCONTROL.format(told=told, state=state, why=why, code=code, hostnames=hostnames),
            "squeue": SQUEUE.format(told=told, job=job, own=own, mark=shlex.quote(proof or "(null)")),
        }
        ended = await run_node_script(self.folder, "fence-script", options, commands, context, nodes=nodes, extra=extra)
        return Run(ended, told.read_text().splitlines() if told.exists() else [])


@pytest.fixture
def script(tmp_path: Path) -> Script:
    (tmp_path / "the key").write_text(f"{TOKEN}\n")
    for folder in ("bin", "notes"):
        (tmp_path / folder).mkdir()
    return Script(tmp_path)


def requests_of(server: HookServer) -> list[str]:
    """What the hooks were asked until now, in short."""
    found = [server.requests.get_nowait() for _ in range(server.requests.qsize())]
    assert all(authorization == f"bearer {TOKEN}" for _, authorization in found)
    return [target.removeprefix("/hooks/") for target, _ in found]


@pytest.mark.parametrize("extra", ["", "somebody's own words", '{"slurm-extender-like":1,"c":"x"}'])
async def test_a_job_that_is_no_placeholder_calls_no_hook(script: Script, extra: str) -> None:
    async with hooks() as server:
        assert await script(server.url, extra=extra) == Run(0, [])
        assert server.requests.empty()


async def test_it_ends_when_the_pod_is_gone(script: Script) -> None:
    async with hooks(teardown=[202, 503, 202, 200]) as server:
        assert await script(server.url, hold=12) == Run(0, [])
        targets = [server.requests.get_nowait()[0] for _ in range(4)]
        assert all(target.startswith("/hooks/jobs/17/teardown?wait=") for target in targets)


async def test_a_job_of_which_the_extender_knows_nothing_is_let_go(script: Script) -> None:
    async with hooks(teardown=[404]) as server:
        assert await script(server.url, hold=12) == Run(0, [])


@pytest.mark.parametrize("answer", [200, 202])
async def test_a_pod_that_stays_is_handed_to_a_drain_by_the_extender(script: Script, answer: int) -> None:
    async with hooks(teardown=[202], drain=[answer]) as server:
        assert await script(server.url) == Run(0, [])
        targets = [server.requests.get_nowait() for _ in range(server.requests.qsize())]
        assert targets[-1] == ("/hooks/nodes/node-1/drain", f"bearer {TOKEN}")


@pytest.mark.parametrize("drain", [503, 403])
async def test_where_the_extender_does_not_drain_the_epilog_does_in_its_name(script: Script, drain: int) -> None:
    async with hooks(teardown=[503], drain=[drain]) as server:
        run = await script(server.url)
    assert run.code == 0
    assert run.said[:2] == ["--oneliner show node node-1", "squeue 17"]
    said = reason(drainer("cluster", "slurm"), ["job 17 ended"])
    assert run.said[2].startswith(f"update nodename=node-1 state=drain reason={said}")


@pytest.mark.parametrize(
    ("state", "why", "kept"),
    [
        ("DOWN+NOT_RESPONDING ThreadsPerCore=1", "bad DIMM [rack 4] [root@2026-11-23T00:50:01]", "bad DIMM [rack 4]"),
        ("DOWN", "slurm-extender: Pod team/x [root@2026-11-23T00:50:01]", ""),
        ("IDLE", "a drain that is over [root@2026-11-23T00:50:01]", ""),
    ],
)
async def test_what_an_administrator_wrote_of_a_node_that_is_down_stays_in_the_reason(
    script: Script, state: str, why: str, kept: str
) -> None:
    told = (await script(NOBODY, state=state, why=why)).said[2].partition("reason=")[2]
    assert is_own_drain(told, drainer("cluster", "slurm"))
    assert earlier_reason(told) == kept


async def test_without_a_listener_the_epilog_drains_too(script: Script) -> None:
    assert [told.split()[0] for told in (await script(NOBODY)).said] == ["--oneliner", "squeue", "update"]


@pytest.mark.parametrize(
    "state", ["IDLE+DRAIN", "DOWN+DRAIN+NOT_RESPONDING", "DRAINING", "FAIL", "MIXED+FAIL", "FAILING*"]
)
async def test_a_drain_that_is_there_keeps_its_reason(script: Script, state: str) -> None:
    assert await script(NOBODY, state=state) == Run(0, ["--oneliner show node node-1"])


async def test_an_epilog_that_can_fence_the_node_in_no_way_fails(script: Script) -> None:
    assert (await script(NOBODY, code=1)).code != 0


async def test_as_epilogslurmctld_it_reports_and_holds_nothing(script: Script) -> None:
    async with hooks(teardown=[202]) as server:
        assert await script(server.url, "epilog_slurmctld") == Run(0, [])
        assert requests_of(server) == ["jobs/17/teardown?wait=0"]
    assert await script(NOBODY, "epilog_slurmctld") == Run(0, [])


async def test_a_job_on_a_node_without_notes_calls_no_hook(script: Script) -> None:
    script.leave("node-10:5", "node-2:6")
    async with hooks() as server:
        assert await script(server.url, PROLOG, extra="") == Run(0, [])
        assert requests_of(server) == []


async def test_a_placeholder_leaves_a_note_and_calls_no_hook(script: Script) -> None:
    async with hooks() as server:
        assert await script(server.url, PROLOG) == Run(0, ["squeue 17"])
        assert requests_of(server) == []
    assert script.notes == ["node-1:17"]


async def test_a_job_waits_until_the_node_is_clear_and_takes_the_notes_away(script: Script) -> None:
    script.leave("node-1:5", "node-1:6", "node-2:7")
    async with hooks(clear=[202, 202, 200]) as server:
        assert await script(server.url, PROLOG, extra="") == Run(0, ["show config"])
        first, *others = requests_of(server)
        assert first == "nodes/node-1/clear?wait=10&jobs=5,6"
        assert others == [f"{first}&limit=15"] * 2, "the extender is told for how long Slurm waits"
    assert script.notes == ["node-2:7"]


async def test_a_job_beside_placeholders_that_run_starts_and_leaves_their_notes(script: Script) -> None:
    script.leave("node-1:5")
    async with hooks(clear=[204]) as server:
        assert await script(server.url, PROLOG) == Run(0, ["squeue 17"])
        assert len(requests_of(server)) == 1
    assert script.notes == ["node-1:17", "node-1:5"]


async def test_a_placeholder_that_runs_again_waits_for_its_own_pod_of_before_and_keeps_its_note(script: Script) -> None:
    script.leave("node-1:17")
    async with hooks(clear=[200]) as server:
        assert await script(server.url, PROLOG) == Run(0, ["squeue 17"])
        assert requests_of(server) == ["nodes/node-1/clear?wait=10&jobs=17"]
    assert script.notes == ["node-1:17"]


async def test_on_the_controller_every_node_of_the_job_is_waited_for(script: Script) -> None:
    script.leave("node-2:5", "node-9:5")
    async with hooks(clear=[200]) as server:
        run = await script(server.url, PROLOG, nodes="node-[1-2]")
        assert run == Run(0, ["show hostnames node-[1-2]", "squeue 17"])
        assert requests_of(server) == ["nodes/node-2/clear?wait=10&jobs=5"]
    assert script.notes == ["node-1:17", "node-2:17", "node-9:5"]


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("node-[1-2]", ["node-1", "node-2"]),
        ("node-[08-10,12],gpu7", ["gpu7", "node-08", "node-09", "node-10", "node-12"]),
        ("r[1-2]n[1-2]-ib,a,b", ["a", "b", "r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
    ],
)
async def test_on_the_controller_every_node_is_known_without_slurms_commands_too(
    script: Script, nodes: str, names: list[str]
) -> None:
    for name in names:
        script.leave(f"{name}:5")
    async with hooks(clear=[200]) as server:
        await script(server.url, PROLOG, nodes=nodes, hostnames="false")
        assert sorted(one.split("/")[1] for one in requests_of(server)) == names
    assert script.notes == sorted(f"{name}:17" for name in names)


@pytest.mark.parametrize("nodes", ["n[1-99999999]", "n[1-2", "n]1,2", "n[1-2-3]", "n[9-1]", "n[a,b]"])
async def test_what_is_no_list_of_nodes_has_none(script: Script, nodes: str) -> None:
    assert (await script(NOBODY, PROLOG, nodes=nodes, hostnames="false")).code == 0
    assert script.notes == []


async def test_without_an_answer_a_job_starts_beside_placeholders_that_slurm_says_run(script: Script) -> None:
    script.leave("node-1:5")
    run = await script(NOBODY, PROLOG, extra="")
    assert run == Run(0, ["squeue 5"])
    assert script.notes == ["node-1:5"]


async def test_without_an_answer_a_job_waits_for_a_placeholder_that_has_ended(script: Script) -> None:
    script.leave("node-1:5")
    async with hooks(clear=[503, 503, 200]) as server:
        run = await script(server.url, PROLOG, extra="", job="NODE_FAIL")
        assert run.code == 0
        assert len(requests_of(server)) == 3
    assert script.notes == []


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_hooks_that_will_never_know_hold_no_job(script: Script, status: int) -> None:
    script.leave("node-1:5")
    async with hooks(clear=[status]) as server:
        assert await script(server.url, PROLOG, extra="") == Run(0, [])
    assert script.notes == ["node-1:5"]


async def test_who_is_cancelled_while_it_waits_waits_no_longer(script: Script) -> None:
    script.leave("node-1:5")
    async with hooks(clear=[503]) as server:
        run = await script(server.url, PROLOG, extra="", job="NODE_FAIL", own="CANCELLED")
    assert (run.code, run.said[-1]) == (0, "squeue 17")
    assert script.notes == ["node-1:5"]


async def test_who_slurm_says_nothing_of_waits_on(script: Script) -> None:
    script.leave("node-1:5")
    async with hooks(clear=[503, 503, 503, 503, 200]) as server:
        run = await script(server.url, PROLOG, extra="", job="NODE_FAIL", own="")
        assert len(requests_of(server)) == 5
    assert (run.code, script.notes) == (0, [])


async def test_a_folder_for_notes_that_is_not_there_hurts_no_job(script: Script) -> None:
    (script.folder / "notes").rmdir()
    assert await script(NOBODY, PROLOG) == Run(0, ["squeue 17"])
    assert (await script(NOBODY, PROLOG, extra="", nodes="node-[1-2]")).code == 0


async def test_as_prolog_of_a_node_it_holds_nothing(script: Script) -> None:
    script.leave("node-1:5")
    async with hooks() as server:
        assert await script(server.url, "prolog_slurmd") == Run(0, [])
        assert requests_of(server) == []
    assert script.notes == ["node-1:5"]


async def test_the_note_goes_when_the_job_has_ended_and_the_node_is_clear(script: Script) -> None:
    script.leave("node-1:17", "node-1:5")
    async with hooks(teardown=[200], clear=[200]) as server:
        assert await script(server.url, "epilog_slurmctld") == Run(0, [])
        assert requests_of(server)[-1] == "nodes/node-1/clear?wait=0&jobs=17"
    assert script.notes == ["node-1:5"]


async def test_the_note_of_a_pod_that_takes_longer_goes_when_that_is_gone(script: Script) -> None:
    script.leave("node-1:17")
    async with hooks(teardown=[202], clear=[202, 202, 200]) as server:
        assert await script(server.url, "epilog_slurmctld") == Run(0, [])

        async def left() -> list[str]:
            return script.notes

        await until(left, lambda notes: not notes, "a process of its own takes it away", tries=600)


async def test_a_mark_that_only_the_owner_of_the_job_wrote_leaves_no_note(script: Script) -> None:
    async with hooks() as server:
        assert await script(server.url, PROLOG, proof="") == Run(0, ["squeue 17"])
        assert requests_of(server) == []
    assert script.notes == []


async def test_a_job_of_which_slurm_says_nothing_leaves_a_note(script: Script) -> None:
    async with hooks() as server:
        assert (await script(server.url, PROLOG, own="")).code == 0
    assert script.notes == ["node-1:17"]


async def test_a_mark_that_only_the_owner_of_the_job_wrote_drains_no_node_in_the_extenders_name(script: Script) -> None:
    assert await script(NOBODY, proof="") == Run(0, ["--oneliner show node node-1", "squeue 17"])


async def test_where_slurm_does_not_say_whose_job_it_was_the_epilog_fails_and_drains_nothing(script: Script) -> None:
    assert await script(NOBODY, own="") == Run(1, ["--oneliner show node node-1", "squeue 17"])


@pytest.mark.parametrize("name", ["node-1:", "node-1:x", "node-1:5;rm", "node-1:$(id)"])
async def test_a_note_that_names_no_job_is_skipped(script: Script, name: str) -> None:
    script.leave(name)
    async with hooks() as server:
        assert await script(server.url, PROLOG, extra="") == Run(0, [])
        assert requests_of(server) == []


@dataclass(frozen=True)
class Recorded:
    """What Slurm printed of a job whose owner wrote what was to mislead; `{job}` stands for its padded id."""

    scontrol: str
    squeue: str

    def commands(self, job: int) -> dict[str, str]:
        """scontrol and squeue, which print this and nothing else."""
        return {
            "scontrol": _printing(self.scontrol.replace("{job}", str(job))),
            "squeue": _printing(self.squeue.replace("{job}", f"{job:<12}")),
        }


def _printing(text: str) -> str:
    return f"#!/bin/bash\nprintf %s {shlex.quote(text)}\n"


RECORDED = {name: Recorded(**said) for name, said in json.loads(HOSTILE_JOBS.read_text()).items()}


async def with_log_context(script: Script, recorded: Recorded, job: int, url: str, context: str, extra: str) -> int:
    """Run the script where Slurm's commands say what was recorded."""
    options: dict[str, object] = {
        "--hooks": url,
        "--key-file": script.folder / "the key",
        "--hold": 4,
        "--notes": script.folder / "notes",
    }
    commands = recorded.commands(job)
    return await run_node_script(script.folder, "fence-script", options, commands, context, nodes="node-1", extra=extra)


@pytest.mark.parametrize(
    "name",
    [
        "an ended job that says it runs",
        "an ended job that says it runs, in lines",
        "a job that runs again and says it never did",
    ],
)
async def test_no_name_makes_a_job_that_has_ended_appear_running(script: Script, name: str) -> None:
    script.leave("node-1:5")
    async with hooks(clear=[503, 503, 200]) as server:
        assert await with_log_context(script, RECORDED[name], 5, server.url, PROLOG, "") == 0
        assert len(requests_of(server)) == 3, "it waited for the node"


@pytest.mark.parametrize(
    "name", ["a running job that says it is cancelled", "a running job that says it is cancelled, in lines"]
)
async def test_no_name_makes_a_job_that_runs_appear_ended(script: Script, name: str) -> None:
    script.leave("node-1:5")
    assert await with_log_context(script, RECORDED[name], 5, NOBODY, PROLOG, "") == 0
    assert script.notes == ["node-1:5"]


@pytest.mark.parametrize(
    ("name", "drains"), [("a job with a mark of its owner", False), ("a placeholder with a hostile name", True)]
)
async def test_no_name_proves_or_disproves_whose_job_it_is(script: Script, name: str, drains: bool) -> None:
    recorded = RECORDED[name]
    told = script.folder / "told"
    noted = Recorded("NodeName=node-1 State=IDLE Reason=x\n", recorded.squeue)
    commands = noted.commands(17)
    commands["scontrol"] = commands["scontrol"].replace("#!/bin/bash\n", f'#!/bin/bash\necho "$*" >>{told}\n')
    options: dict[str, object] = {"--hooks": NOBODY, "--key-file": script.folder / "the key", "--hold": 4}
    await run_node_script(script.folder, "fence-script", options, commands, "epilog_slurmd", nodes="node-1", extra=MARK)
    assert any("state=drain" in line for line in told.read_text().splitlines()) is drains
