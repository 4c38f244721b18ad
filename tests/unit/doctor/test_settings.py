"""Each setting of slurm.conf that hurts is named, with what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.doctor.checks.settings import SettingContext, fenced, settings
from extender.doctor.finding import Verdict, worst
from extender.doctor.slurm_conf import KnownSlurmConf, from_slurmrestd, read_text

GOOD = {
    "SchedulerParameters": "batch_sched_delay=0",
    "DefMemPerCPU": "100",
    "KillWait": "30",
    "JobRequeue": "1",
    "MaxJobCount": "10000",
    "MinJobAge": "300",
    "SlurmdTimeout": "300",
    "PreemptMode": "CANCEL",
    "PreemptType": "preempt/partition_prio",
    "PreemptParameters": "send_user_signal",
    "Epilog": "/etc/slurm/slurm-extender-fence.sh",
    "EpilogSlurmctld": "/etc/slurm/slurm-extender-fence.sh",
    "PrologSlurmctld": "/etc/slurm/slurm-extender-fence.sh",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "AuthAltTypes": "auth/jwt",
}
CONTEXT = SettingContext(send_user_signal=True, records=10, graced=True, external_nodes=True)
OK, WARNING, ERROR, SKIPPED = Verdict


def conf(**changed: str) -> KnownSlurmConf:
    """A file that says what is good, and these instead."""
    return read_text("\n".join(f"{key}={value}" for key, value in (GOOD | changed).items()), "slurm.conf")


def verdicts(given: KnownSlurmConf | None, context: SettingContext = CONTEXT) -> dict[str, Verdict]:
    """By check, what is not ok."""
    return {one.check: one.verdict for one in settings(given, context) if one.verdict is not OK}


def test_good_settings_are_good() -> None:
    found = list(settings(conf(), CONTEXT))
    assert worst(found) is OK
    assert {one.verdict for one in found} == {OK}
    assert {"KillWait", "MaxJobCount", "JobRequeue", "SlurmdTimeout", "Epilog"} <= {one.check for one in found}


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("SchedulerParameters", "bf_interval=5", {"batch_sched_delay": WARNING}),
        ("SchedulerParameters", "batch_sched_delay=0,defer", {"defer": WARNING}),
        ("DefMemPerCPU", "0", {"default memory": WARNING}),
        ("KillWait", "20", {"KillWait": ERROR}),
        ("KillWait", "60", {"KillWait": WARNING}),
        ("MaxJobCount", "11", {"MaxJobCount": ERROR}),
        ("MaxJobCount", "15", {"MaxJobCount": WARNING}),
        ("MinJobAge", "10", {"MinJobAge": WARNING}),
        ("PrologEpilogTimeout", "60", {"PrologEpilogTimeout": WARNING}),
        ("SlurmdTimeout", "20", {"SlurmdTimeout": WARNING}),
        ("SlurmdTimeout", "10", {"SlurmdTimeout": ERROR}),
        ("PreemptMode", "GANG,SUSPEND", {"PreemptMode": ERROR}),
        ("PreemptParameters", "", {"send_user_signal": ERROR}),
        ("Epilog", "", {"Epilog": WARNING}),
        ("Epilog", "/etc/slurm/epilog.d/*", {"Epilog": SKIPPED}),
        ("PrologSlurmctld", "", {"PrologSlurmctld": WARNING}),
        ("EpilogSlurmctld", "", {"EpilogSlurmctld": WARNING}),
        ("SelectType", "select/linear", {"SelectType": ERROR}),
        ("SelectTypeParameters", "CR_Core", {"SelectTypeParameters": WARNING}),
        ("AuthAltTypes", "", {"AuthAltTypes": ERROR}),
        ("PreemptType", "preempt/qos", {"PreemptType": WARNING}),
    ],
)
def test_a_setting_that_hurts_is_said(setting: str, value: str, said: dict[str, Verdict]) -> None:
    assert verdicts(conf(**{setting: value})) == said


def test_the_signal_that_the_site_has_and_does_not_say_is_worth_a_word() -> None:
    assert verdicts(conf(), replace(CONTEXT, send_user_signal=False)) == {"send_user_signal": WARNING}


def test_without_the_signal_graced_partitions_are_reported_late() -> None:
    quiet = replace(CONTEXT, send_user_signal=False)
    assert verdicts(conf(PreemptParameters=""), quiet) == {"send_user_signal": WARNING}
    assert verdicts(conf(PreemptParameters=""), replace(quiet, graced=False)) == {}


def test_the_fence_script_is_known_by_its_name() -> None:
    nowhere = dict.fromkeys(("Epilog", "EpilogSlurmctld", "PrologSlurmctld"), "")
    assert fenced(conf())
    assert not fenced(conf(**nowhere))
    assert fenced(conf(**nowhere | {"PrologSlurmctld": "/etc/slurm/slurm-extender-fence.sh"}))
    assert not fenced(None)


def test_a_site_without_slurmds_needs_no_epilog_and_no_slurmd_timeout() -> None:
    assert verdicts(conf(Epilog="", SlurmdTimeout="5"), replace(CONTEXT, slurmds=False)) == {}


def test_a_preempting_qos_that_is_named_is_enough() -> None:
    assert verdicts(conf(PreemptType="preempt/qos"), replace(CONTEXT, preempting_qos=frozenset({"urgent"}))) == {}


@pytest.mark.parametrize(("limit", "said"), [({"set": True, "number": 33}, WARNING), ({"set": False, "number": 0}, OK)])
def test_the_timeout_of_prologs_is_read_as_slurmrestd_shows_it(limit: dict[str, object], said: Verdict) -> None:
    conf = from_slurmrestd({"PrologTimeout": limit, "EpilogTimeout": limit}, "slurmrestd")
    assert [one.verdict for one in settings(conf, CONTEXT) if one.check == "PrologEpilogTimeout"] == [said]


def test_what_was_not_seen_is_reported_with_how_to_check() -> None:
    [one] = settings(None, CONTEXT)
    assert one.verdict is SKIPPED
    assert "scontrol show config" in one.advice


def test_a_setting_that_is_not_shown_is_not_judged() -> None:
    found = list(settings(KnownSlurmConf({}, "slurmrestd"), CONTEXT))
    assert {one.verdict for one in found} == {SKIPPED}
    assert all("slurmrestd does not show it" in one.seen and "grep -i" in one.advice for one in found)


def test_records_that_were_not_counted_are_not_judged() -> None:
    assert verdicts(conf(), replace(CONTEXT, records=None)) == {"MaxJobCount": SKIPPED}
