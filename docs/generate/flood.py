"""Write the part of `docs/performance.md` about a flood: its verdicts, where the time goes, and what was served."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

GOAL = 2.0

STAGES = {
    "shown": ("creation → shown by a watch", "the API server"),
    "named": ("shown → the Pod names its job", "the extender, Slurm, and the patch"),
    "bound": ("job named → bound", "kube-scheduler, `/filter` and `/bind`"),
}

COUNTS = ("requests", "created", "flapped", "deleted", "forced", "throttled", "failed")

FLOODS = {"with_extender": "Pods of the extender", "without_extender": "Pods of a kube-scheduler without extender"}


def flood_lines(found: Json) -> list[str]:
    """Return the lines; those that an older bench did not measure are left out."""
    lines = ["**Another namespace floods**", "", *_verdicts(found)]
    if "stages" in found:
        lines += ["", *_largest(found["stages"]), "", *_stages(found["stages"])]
    else:
        lines += ["", *_largest_of_an_older_bench(found)]
    if "attacks" in found:
        lines += ["", "Requests of the flood in one phase (median of the rounds):", "", *_attacks(found["attacks"])]
    if found.get("served"):
        served = [one["flooded"] for one in found["served"]]
        lines += ["", "Requests of all rounds' flooded phases, by flow schema of the API server:", ""]
        lines += [*_flows([one["flow_schemas"] for one in served])]
        lines += ["", "Requests of the extender in the same phases:", "", *_sent([one["extender"] for one in served])]
    return lines


def _verdicts(found: Json) -> Iterator[str]:
    ratio, beside = found["ratio"], found["ratio_beside_kube_scheduler_alone"]
    elsewhere = len(found["drained_elsewhere"])
    goal = "met" if ratio <= GOAL else "**not met**"
    yield f"The goal, a p95 of at most {GOAL:g} times the quiet one, is {goal}: it is {ratio:.2f} times."
    within = "at most" if beside <= GOAL else "more than"
    yield (
        f"Divided by the ratio of Pods that a kube-scheduler places without an extender it is {beside:.2f}, "
        f"{within} {GOAL:g}."
    )
    nodes = "no Slurm node is" if not elsewhere else f"{elsewhere} Slurm nodes are"
    yield f"Outside the flood {nodes} drained."


def _largest(stages: Json) -> Iterator[str]:
    flooded = {name: stages["flooded"][name]["mean"] for name in STAGES}
    total = sum(flooded.values())
    largest = max(flooded, key=lambda name: flooded[name])
    span, parts = STAGES[largest]
    yield f"The largest part of a flooded Pod's time is {span}: {flooded[largest] / total:.0%}."
    yield f"It is spent by {parts}."
    grown = {name: flooded[name] - stages["quiet"][name]["mean"] for name in STAGES}
    most = max(grown, key=lambda name: grown[name])
    yield f"Compared with a quiet Pod, {STAGES[most][0]} grows most, by {_ms(grown[most])}."


def _largest_of_an_older_bench(found: Json) -> Iterator[str]:
    shares = [one["allocated"] / one["placed"] for one in found["flooded_p95_s"]]
    yield "An older bench measured this: its flooding user was an administrator, exempt from priority and fairness."
    each = ", ".join(f"{one:.0%}" for one in shares)
    yield f"Of the p95 of each round, creation until the Pod names its job takes {each}."
    most = sum(share > 0.5 for share in shares)
    yield f"In {most} of {len(shares)} rounds that is more than half, before kube-scheduler processes the Pod."


def _stages(stages: Json) -> Iterator[str]:
    total = stages["flooded"]["placed"]["mean"]
    yield "| stage of an innocent Pod | spent by | quiet: p50, p95 | flooded: p50, p95 | share of the flooded mean |"
    yield "|---|---|---|---|---|"
    spans = STAGES | {"placed": ("all", ""), "accepted": ("the request that creates it", "the API server")}
    for name, (span, parts) in spans.items():
        quiet, flooded = (stages[phase][name] for phase in ("quiet", "flooded"))
        both = " | ".join(f"{_ms(one['p50'])}, {_ms(one['p95'])}" for one in (quiet, flooded))
        yield f"| {span} | {parts or '-'} | {both} | {flooded['mean'] / total:.0%} |"


def _attacks(attacks: Json) -> Iterator[str]:
    heads = {"flapped": "changed", "forced": "deleted by force", "throttled": "throttled (429)"}
    yield f"| flood | seconds | {' | '.join(heads.get(name, name) for name in COUNTS)} |"
    yield f"|---{'|---' * (len(COUNTS) + 1)}|"
    for key, told in FLOODS.items():
        medians = [statistics.median(one[name] for one in attacks[key]) for name in ("seconds", *COUNTS)]
        yield f"| {told} | {' | '.join(f'{value:.0f}' for value in medians)} |"


def _flows(phases: Sequence[Json]) -> Iterator[str]:
    yield "| flow schema | priority level | requests | throttled | mean wait | mean execution |"
    yield "|---|---|---|---|---|---|"
    for name in sorted({name for phase in phases for name in phase}):
        told = [phase[name] for phase in phases if name in phase]
        requests, throttled, waited, executed = (
            sum(one.get(key, 0.0) for one in told) for key in ("requests", "throttled", "waited_s", "executed_s")
        )
        each = " | ".join(_ms(seconds / requests) if requests else "-" for seconds in (waited, executed))
        yield f"| {name} | {told[0]['level']} | {requests:.0f} | {throttled:.0f} | {each} |"


def _sent(phases: Sequence[Json]) -> Iterator[str]:
    yield "| request | number | mean |"
    yield "|---|---|---|"
    for name in sorted({name for phase in phases for name in phase}):
        count, seconds = (sum(phase.get(name, {}).get(key, 0.0) for phase in phases) for key in ("count", "seconds"))
        yield f"| {name} | {count:.0f} | {_ms(seconds / count)} |"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
