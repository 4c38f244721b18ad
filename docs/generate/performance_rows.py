"""The rows of the table of `docs/performance.md`: what is measured, its goal, and what a result says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

WAITING_MEMBERS = 8
"""Members of each waiting gang."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Result of a row. `met` is `None` if there is no goal, or no floor to compare with."""

    figure: str
    floor: str
    ratio: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `show` raises KeyError or TypeError if the result lacks a figure."""

    what: str
    goal: str
    source: str
    show: Callable[[Json], Shown]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _pair(summary: Json) -> str:
    return f"{_ms(summary['p50'])}, {_ms(summary['p99'])}"


def _placed(found: Json) -> Shown:
    p50, p99 = found["ratio_p50"], found["ratio_p99"]
    met = max(p50, p99) <= 1.5
    return Shown(_pair(found["ours_s"]), _pair(found["bare_s"]), f"{p50:.2f}, {p99:.2f}", met)


def _submitted(found: Json) -> Shown:
    ours, plain = found["ours_s"]["p50"], found["plain_s"]["p50"]
    return Shown(_ms(ours), _ms(plain), f"{ours / plain:.2f}", ours <= 1.2 * plain + 0.06)


def _batch(found: Json) -> Shown:
    ours, plain = found["ours_s"]["p50"], found["plain_s"]["p50"]
    return Shown(_ms(ours), _ms(plain), f"{ours / plain:.2f}", ours <= 1.2 * plain)


def _resource_claim(found: Json) -> Shown:
    having, lacking, later = found["with_s"], found["without_s"], found["later_p50_s"]
    alone = found.get("floor_later_p50_s")
    floor = _ms(lacking["p50"]) + ("" if alone is None else f"; kube-scheduler alone {1000 * alone:+.0f} ms")
    return Shown(_ms(having["p50"]), floor, f"{1000 * later:+.0f} ms", later <= 0.03)


def _at_most(get: Callable[[Json], Json], limit: float, floor: Callable[[Json], str] = lambda _: "") -> Any:
    def show(found: Json) -> Shown:
        p50 = get(found)["p50"]
        return Shown(_ms(p50), floor(found), "", p50 <= limit)

    return show


def _burst(found: Json) -> Shown:
    ours, bare = found["median_per_s"]["slurm"], found["median_per_s"]["bare"]
    met = found["ratio"] >= 0.85 if found["valid"] else None
    return Shown(f"{ours:.0f} Pods/s", f"{bare:.0f} Pods/s", f"{found['ratio']:.2f}", met)


def _bare(found: Json) -> Shown:
    rates = found["median_per_s"]
    parts = ", ".join(f"{name} {rates[name]:.0f}" for name in ("allocate", "alone", "ungate"))
    ratios = f"{found['bare_to_slower_part']:.2f} of the slower, {found['bare_to_parts_in_turn']:.2f} of all in turn"
    return Shown(
        f"{rates['bare']:.0f}/s, {found['busy']['bare']:.0%} busy", f"{parts} /s", ratios, bool(found["valid"])
    )


def _granted(arm: str) -> Callable[[Json], Shown]:
    def show(found: Json) -> Shown:
        p99, poll, bunch = found[arm]["p99"], found["poll_s"][arm], found.get("given_at_once", {}).get(arm)
        given = f"; slurmctld gave to {bunch['p50']:.0f} at once, to {bunch['most']} at most" if bunch else ""
        return Shown(_ms(p99), f"a poll each {_ms(poll)}{given}", "", p99 <= poll + 0.3)

    return show


def _turnover(found: Json) -> Shown:
    ours, plain = _median(found["ours_per_s"]), _median(found["plain_per_s"])
    return Shown(f"{ours:.1f} Pods/s", f"{plain:.1f} jobs/s", f"{found['ratio']:.2f}", found["ratio"] >= 0.8)


def _waits(key: str) -> Callable[[Json], Shown]:
    def show(found: Json) -> Shown:
        one = found[key]
        share = one["cpu_s"] / one["seconds"]
        calls = 0 if one["gated"] else one["pods"] * (1 + one["seconds"] / 60)
        earlier = one.get("filters_before", 0)
        before = f" ({earlier / one['pods']:.1f} each while they came)" if earlier else ""
        figure = f"{one['requests']} requests, {one['filters']} `/filter`{before}, {share:.1%} of a core"
        met = one["requests"] <= one["budget"] and one["filters"] <= calls and share <= 0.05
        return Shown(figure, f"{one['budget']:.0f} reads in turn", "", met)

    return show


def _filtered(found: Json) -> Shown:
    own = f"by its own clock p99 ≤ {1000 * found['served_p99_s']:g} ms"
    figure = f"p99 {_ms(found['filter_s']['p99'])}, p50 {_ms(found['filter_s']['p50'])}; {own}"
    return Shown(figure, "", "", found["filter_s"]["p99"] <= 0.005)


def _held(found: Json) -> Shown:
    figure = f"{found['rss_mb']:.0f} MB; {found['ready_s']:.1f} s; {found['longest_step_ms']:.0f} ms"
    met = found["rss_mb"] <= 300 and found["ready_s"] <= 15 and found["longest_step_ms"] <= 50
    return Shown(figure, "", "", met)


def _polled(found: Json) -> Shown:
    each = ", ".join(f"{name} {ms:.1f} ms" for name, ms in found["cpu_ms_per_poll"].items())
    return Shown(each, f"{found['polls_per_s']:.1f} polls/s", "", None)


def _beside(found: Json) -> Shown:
    ours, bare = _median(found["ours_s"]), _median(found["bare_s"])
    return Shown(_ms(ours), _ms(bare), f"{ours / bare:.2f}", ours <= 1.3 * bare)


def _drained(found: Json) -> Shown:
    ours, bare = found["ours_s"], found["bare_s"]
    return Shown(_pair(ours), _pair(bare), f"{ours['p99'] / bare['p99']:.2f}", ours["p99"] <= 0.5)


def _cost(key: str, most_requests: float, writes: float) -> Callable[[Json], Shown]:
    def show(found: Json) -> Shown:
        one = found[key]
        requests, written, cpu_ms = one["requests_per_pod"], one["writes_per_pod"], one["cpu_ms_per_pod"]
        figure = f"{requests:.1f} requests, {written:.1f} writes, {cpu_ms:.1f} ms"
        met = requests <= most_requests and written <= writes and cpu_ms <= 5
        return Shown(figure, "", "", met)

    return show


def _flooded(found: Json) -> Shown:
    flooded, quiet = (_median([one["placed"] for one in found[key]]) for key in ("flooded_p95_s", "quiet_p95_s"))
    return Shown(_ms(flooded), _ms(quiet), f"{found['ratio']:.2f}", found["ratio"] <= 2)


def _flooded_floors(found: Json) -> Shown:
    names = {"allocated": "create → job", "without_extender": "kube-scheduler alone", "slurm_alone": "Slurm alone"}
    each = ", ".join(f"{told} {found['median_ratio'][name]:.2f}" for name, told in names.items())
    return Shown("", "", each, None)


def _flooded_kube_scheduler(found: Json) -> Shown:
    ratios = found["ratios_of_kube_scheduler_flooded_alone"]
    each = ", ".join(f"{one:.2f}" for one in ratios)
    return Shown("", f"rounds: {each}", f"{found['ratio_of_kube_scheduler_flooded_alone']:.2f}", None)


def _flooded_beside(found: Json) -> Shown:
    each = ", ".join(f"{one:.2f}" for one in found["ratios_beside_kube_scheduler_alone"])
    ratio = found["ratio_beside_kube_scheduler_alone"]
    return Shown("", f"rounds: {each}", f"{ratio:.2f}", ratio <= 2)


def _drained_elsewhere(found: Json) -> Shown:
    elsewhere = found["drained_elsewhere"]
    return Shown(f"{len(elsewhere)} of {len(found['drained'])} drained", "", "", not elsewhere)


def _flat(found: Json) -> Shown:
    points = found["points"]
    each = ", ".join(f"{point['cpu_ms_per_pod']:.1f}" for point in points)
    first = points[0]["cpu_ms_per_pod"]
    met = all(abs(point["cpu_ms_per_pod"] / first - 1) <= 0.2 for point in points)
    return Shown(f"{each} ms", "", f"{found['most_to_least']:.2f}", met)


def _gang(found: Json) -> Shown:
    ours, bare = found["ours_s"], found["bare_s"]
    return Shown(_pair(ours), _pair(bare), f"{found['ratio_p50']:.2f}", ours["p50"] <= 0.15)


def _large_gang(found: Json) -> Shown:
    ours, single = _median(found["s"]), _median(found["single_s"])
    return Shown(_ms(ours), _ms(single), f"{ours / single:.2f}", max(found["s"]) <= 10)


def _large_gang_beside(found: Json) -> Shown:
    ours, bare = _median(found["s"]), _median(found["bare_s"])
    barriers = [sum(one.values()) for one in found["barriers"]]
    figure = f"{_ms(ours)}; barriers: {', '.join(map(str, barriers))}"
    return Shown(figure, _ms(bare), f"{ours / bare:.2f}", ours <= 1.5 * bare and set(barriers) == {1})


def _gangs_in_a_burst(found: Json) -> Shown:
    gangs, single = found["median_per_s"]["gangs"], found["median_per_s"]["single"]
    return Shown(f"{gangs:.0f} Pods/s", f"{single:.0f} Pods/s", f"{found['ratio']:.2f}", found["ratio"] >= 0.8)


def _waiting_gangs(found: Json) -> Shown:
    def share(arm: str) -> float:
        return float(found[arm]["cpu_s"] / found[arm]["seconds"])

    gangs, single = share("gangs"), share("single")
    figure = f"{found['gangs']['requests']} requests, {found['gangs']['filters']} `/filter`, {gangs:.1%} of a core"
    floor = f"{found['single']['requests']} requests, {single:.1%} of a core"
    met: bool | None = gangs <= 1.2 * single and not found["gangs"]["filters"]
    if found["size"] != WAITING_MEMBERS:  # an older bench measured smaller gangs
        figure, met = f"gangs of {found['size']}: {figure}", None
    return Shown(figure, floor, f"{gangs / single:.2f}", met)


def _median(values: list[float]) -> float:
    ranked = sorted(values)
    middle = len(ranked) // 2
    return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2


ROWS = (
    Row("idle, create → bound, gated, `external` (p50, p99)", "≤ 1.5 times bare", "placing-external", _placed),
    Row("idle, create → bound, gated, `allocation` (p50, p99)", "≤ 1.5 times bare", "placing-allocation", _placed),
    Row(
        "the same where it may preempt (p50; plain: submit → RUNNING)",
        "≤ 1.2 times plain + 60 ms",
        "placing-submit",
        _submitted,
    ),
    Row(
        "GraceTime: warning → deletion asked, batch signal (p50)",
        "≤ 0.3 s",
        "preempted",
        _at_most(lambda f: f["signal"]["told_s"], 0.3),
    ),
    Row("the same by reading, 100 running", "≤ 2 s", "preempted", _at_most(lambda f: f["read"]["told_s"], 2.0)),
    Row(
        "Pod gone → preemptor RUNNING, batch (p50; floor: cancel → RUNNING without Pods)",
        "≤ 0.6 s",
        "preempted",
        _at_most(lambda f: f["signal"]["given_s"], 0.6, lambda f: _ms(f["plain_given_s"]["p50"])),
    ),
    Row(
        "the same, external",
        "≤ 0.6 s",
        "preempted",
        _at_most(lambda f: f["read"]["given_s"], 0.6, lambda f: _ms(f["plain_given_s"]["p50"])),
    ),
    Row(
        "idle, ungated, kube-scheduler as shipped (p50)",
        "≤ 2.5 s",
        "placing-ungated",
        _at_most(lambda f: f["shipped"]["ours_s"], 2.5),
    ),
    Row(
        "idle, ungated, SchedulerPopFromBackoffQ on (p50)",
        "≤ 150 ms",
        "placing-ungated",
        _at_most(lambda f: f["popping"]["ours_s"], 0.15),
    ),
    Row(
        "Pod with one ResourceClaim, create → bound, gated (p50; floor: without, in turn)",
        "≤ 30 ms later",
        "placing-claim",
        _resource_claim,
    ),
    Row("`batch`, create → bound (p50; plain: submit → script runs)", "≤ 1.2 times plain", "placing-batch", _batch),
    Row("burst of 300", "≥ 0.85 times bare", "burst-300", _burst),
    Row("its floor: the bare pipeline beside its steps alone", "≥ 0.9", "burst-300", _bare),
    Row("burst of 1,000", "≥ 0.85 times bare", "burst-1000", _burst),
    Row("its floor: the bare pipeline beside its steps alone", "≥ 0.9", "burst-1000", _bare),
    Row("200 wait, 10 ends a second: allocated in Slurm → bound (p99)", "≤ poll + 0.3 s", "granted", _granted("s")),
    Row("the same, 25 ends a second", "≤ poll + 0.3 s", "granted", _granted("busy_s")),
    Row("turnover: 1,000 through room for 100, 2 s each", "≥ 0.8 times plain", "turnover", _turnover),
    Row("1,000 wait for 60 s, gated", "0 beyond the budget; 0 `/filter`; ≤ 5 %", "waiting", _waits("gated")),
    Row(
        "1,000 wait for 60 s, ungated",
        "0 beyond the budget; 1 `/filter` each per podMaxBackoff; ≤ 5 %",
        "waiting",
        _waits("ungated"),
    ),
    Row("10,000 wait: `/filter` with 5,000 names, 50/s", "p99 ≤ 5 ms", "crowded", _filtered),
    Row("the same: RSS; ready after a start; longest step of the loop", "≤ 300 MB; 15 s; 50 ms", "crowded", _held),
    Row("10,000 jobs: CPU of one poll", "reported", "polled", _polled),
    Row(
        "one `scancel` → deletion asked (p50)",
        "≤ 0.2 s (poll) + 0.1 s",
        "cancelled",
        _at_most(lambda f: f["one"]["s"], 0.3),
    ),
    Row("the same, EpilogSlurmctld reports it", "≤ 0.1 s", "cancelled", _at_most(lambda f: f["pushed"]["s"], 0.1)),
    Row("`scancel` of 300 running", "≤ 1.3 times bare loop", "cancelled", lambda f: _beside(f["many"])),
    Row("300 Pods finish at once", "≤ 1.3 times bare loop", "finishing", _beside),
    Row("a Node is cordoned → its Slurm node is drained (p50, p99)", "p99 ≤ 0.5 s", "cordoned", _drained),
    Row("gang of 8 on an idle cluster, first creation → all bound (p50, p99)", "p50 ≤ 150 ms", "gang-8", _gang),
    Row("gang of 512, first creation → all bound (floor: as many single Pods)", "≤ 10 s", "gang-512", _large_gang),
    Row("the same beside the bare pipeline (median)", "≤ 1.5 times bare; 1 barrier", "gang-512", _large_gang_beside),
    Row("burst of 300 in gangs of 4 (floor: single Pods)", "≥ 0.8 times single", "gangs-burst", _gangs_in_a_burst),
    Row(
        f"1,000 gangs of {WAITING_MEMBERS} wait for 60 s, gated (floor: 1,000 single Pods)",
        "0 `/filter`; ≤ 1.2 times the CPU",
        "gangs-waiting",
        _waiting_gangs,
    ),
    Row("cost of a Pod placed at once", "≤ 3; ≤ 3; ≤ 5 ms", "cost", _cost("at_once", 3, 3)),
    Row("cost of a Pod placed after a wait", "≤ 6; ≤ 5; ≤ 5 ms", "cost", _cost("waited", 6, 5)),
    Row(
        "another namespace floods: create → bound (median of the rounds' p95; floor: quiet)",
        "≤ 2 times quiet",
        "adversary",
        _flooded,
    ),
    Row(
        "the same, divided by the ratio of Pods that a kube-scheduler places without an extender",
        "≤ 2",
        "adversary",
        _flooded_beside,
    ),
    Row("the same: parts of it, p95 flooded / quiet", "reported", "adversary", _flooded_floors),
    Row(
        "the same flood at a kube-scheduler without an extender: its Pods, p95 flooded / quiet",
        "reported",
        "adversary",
        _flooded_kube_scheduler,
    ),
    Row("the same: Slurm nodes drained where the flood has no Pod", "0", "adversary", _drained_elsewhere),
    Row("CPU of a placed Pod at 1, 2, 4, 8 times waiting, running, nodes", "± 20 %", "flat", _flat),
)
