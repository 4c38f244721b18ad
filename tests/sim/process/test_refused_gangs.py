"""A gang whose Pods are refused costs little, however many Pods and faults it has and however often they change."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from extender.domain.gangs.labels import JOB_INDEX
from extender.domain.ports import Announcement
from extender.domain.printable import printable
from extender.domain.translation.gang_request import MOST_CHARACTERS
from extender.engine.history import LENGTH
from extender.kube import announce
from simulator.kube.objects import Json, owner_reference
from tests.builders.gang_pods import an_owner
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

PREFIX = "slurm-extender.io/"
MEMBERS = 256
FAULTS = 20


def wrong(number: int) -> dict[str, str]:
    """Return annotations of which each is a fault of this member alone."""
    return {f"{PREFIX}{number}-{fault}": "1" for fault in range(FAULTS)}


def annotate(given: dict[str, str], pod: Json) -> None:
    pod["metadata"]["annotations"].update(given)


async def test_a_refused_job_of_many_pods_costs_few_characters_at_each_change(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced, escaped = list[int](), list[int]()
    write = announce.EventWriter.announce

    def count_escaped(text: str) -> str:
        escaped.append(len(text))
        return printable(text)

    def count_announced(self: announce.EventWriter, announcement: Announcement) -> None:
        announced.append(len(announcement.text))
        write(self, announcement)

    monkeypatch.setattr(announce, "printable", count_escaped)
    monkeypatch.setattr(announce.EventWriter, "announce", count_announced)
    async with site.running():
        job = an_owner(site, "Job", "train", {"parallelism": MEMBERS, "completions": MEMBERS}, gang="true")
        for number in range(MEMBERS):
            labels = {JOB_INDEX: str(number)}
            site.kube.add_pod(f"train-{number}", owner=owner_reference(job), labels=labels, annotations=wrong(number))
        await asyncio.sleep(10)
        for number in range(LENGTH):
            site.edit_pod("train-0", partial(annotate, {f"{PREFIX}0-0-{number}": "1"}))
            await asyncio.sleep(0.1)
        assert len(announced) > MEMBERS * LENGTH / 2, "the changes are announced"
        assert max(announced) < MOST_CHARACTERS + 100
        assert sum(escaped) < 3 * LENGTH * announce.LONGEST_NOTE, "a text is escaped once for all members"
        (p,) = site.extender.engine.placeholders.all.values()
        entries = site.extender.engine.histories.of(p.key).entries
        assert len(entries) == LENGTH
        assert max(len(entry.line()) for entry in entries) < 2 * MOST_CHARACTERS
        kept = {id(text): len(text) for entry in entries for text in getattr(entry.event, "faults", ())}
        assert sum(kept.values()) < LENGTH * (MOST_CHARACTERS + 100)
        assert max(len(getattr(entry.event, "members", ())) for entry in entries) < MEMBERS / 10
        assert max(len(getattr(one, "members", ())) for entry in entries for one in entry.commands) < MEMBERS / 10
