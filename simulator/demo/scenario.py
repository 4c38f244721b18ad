"""The steps of the demo and their times."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from simulator.demo.environment import DemoEnvironment

ALICE, BOB = 1001, 1002
WANTED, DRAINED = "node-2", "node-3"
TICK_S = 0.25

Act = Callable[[DemoEnvironment], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DemoStep:
    """A step: print `says` and call `act` at second `at_s`."""

    at_s: float
    says: str
    act: Act


async def _services(stage: DemoEnvironment) -> None:
    stage.deployment("web", cpus=4, replicas=2)
    stage.job("etl", cpus=2, completions=3, run_for_s=10)


async def _training(stage: DemoEnvironment) -> None:
    for number in (1, 2):
        await stage.sbatch(f"train-{number}", user=ALICE, partition="batch", cpus=8, run_for_s=14)


async def _more_pods(stage: DemoEnvironment) -> None:
    stage.job("report", cpus=4, completions=3, run_for_s=8)


async def _urgent(stage: DemoEnvironment) -> None:
    await stage.sbatch("urgent", user=BOB, partition="urgent", cpus=8, run_for_s=8, node=WANTED)


async def _drain(stage: DemoEnvironment) -> None:
    stage.controller.drain(DRAINED, "bad DIMM")


async def _after_the_drain(stage: DemoEnvironment) -> None:
    stage.job("batch", cpus=6, completions=3, run_for_s=6)


async def _resume(stage: DemoEnvironment) -> None:
    stage.controller.resume(DRAINED)


async def _end(stage: DemoEnvironment) -> None:
    stage.clean_up()


STEPS = (
    DemoStep(0, "A Deployment of two Pods (web, 4 CPUs each) and a Job of three (etl, 2 CPUs, 10 s each).", _services),
    DemoStep(6, "Alice submits two training jobs to Slurm, 8 CPUs each: one queue for jobs and Pods.", _training),
    DemoStep(9, "Another Job of three Pods (report, 4 CPUs, 8 s each) waits its turn behind her.", _more_pods),
    DemoStep(
        30, f"Bob's urgent job wants {WANTED}: Pods there are ended in their grace, then his job starts.", _urgent
    ),
    DemoStep(46, f"An administrator drains {DRAINED}: running Pods and jobs continue, nothing new starts.", _drain),
    DemoStep(48, "Three Pods of 6 CPUs (batch, 6 s each) share the machine that is left.", _after_the_drain),
    DemoStep(58, f"{DRAINED} is repaired and resumed.", _resume),
    DemoStep(64, "Everything is deleted: every job ends with its Pod.", _end),
)
LASTS_S = 70.0
"""Includes the time that the last Pods take to end."""


async def run_steps(
    stage: DemoEnvironment, show_step: Callable[[str], None], scenes: tuple[DemoStep, ...] = STEPS
) -> None:
    """Execute the steps at their times, and run the controllers in between, until the end."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    left = list(scenes)
    while loop.time() - began < LASTS_S:
        while left and loop.time() - began >= left[0].at_s:
            scene = left.pop(0)
            show_step(scene.says)
            await scene.act(stage)
        stage.tick()
        await asyncio.sleep(TICK_S)
