"""slurm.conf in each of the forms in which it can be shown."""

from __future__ import annotations

from extender.doctor.slurm_conf import from_slurmrestd, read_text

FILE = """\
# a comment
ClusterName=c
killwait = 45
SchedulerParameters=batch_sched_delay=0,\\
defer
Epilog=/etc/slurm/e.sh # why
NodeName=n1 CPUs=4 State=UNKNOWN
PartitionName=low Nodes=n1 PreemptMode=REQUEUE GraceTime=10
PreemptMode=CANCEL
"""

SHOWN = """\
Configuration data as of 2026-11-22T10:00:00
DefMemPerNode           = UNLIMITED
Epilog[0]               = /a.sh
Epilog[1]               = /b.sh
KillWait                = 30 sec
PreemptMode             = GANG,SUSPEND
PrologSlurmctld         = (null)
SchedulerParameters     = (null)

Slurmctld(primary) at head is UP
"""


def test_a_file_says_what_is_not_a_default() -> None:
    conf = read_text(FILE, "slurm.conf")
    assert conf.complete
    assert conf.number("KillWait", 30) == 45
    assert conf.parameters("SchedulerParameters") == {"batch_sched_delay": "0", "defer": ""}
    assert conf.get("Epilog", "") == "/etc/slurm/e.sh"
    assert conf.get("MaxJobCount", "10000") == "10000"
    assert conf.partition_modes == {"low": "REQUEUE"}
    assert conf.words("PreemptMode") == frozenset({"CANCEL"})


def test_a_file_that_includes_another_is_not_taken_for_all_there_is() -> None:
    conf = read_text("ClusterName=c\nInclude /etc/slurm/more.conf\n", "slurm.conf")
    assert conf.number("KillWait", 30) is None


def test_what_scontrol_shows_is_read_with_its_units_and_lists() -> None:
    conf = read_text(SHOWN, "-")
    assert not conf.complete
    assert conf.number("KillWait", 5) == 30
    assert conf.number("DefMemPerNode", 0) == -1
    assert conf.get("Epilog", "") == "/a.sh,/b.sh"
    assert conf.get("PrologSlurmctld", "x") == ""
    assert conf.words("PreemptMode") == frozenset({"GANG", "SUSPEND"})
    assert conf.get("PrologEpilogTimeout", "65534") is None


def test_an_empty_list_of_scripts_has_no_line_of_scontrol() -> None:
    assert read_text(SHOWN, "-").get("EpilogSlurmctld", "x") == ""
    assert read_text("KillWait                = 12 sec\n", "-").get("Epilog", "x") is None


def test_some_lines_of_scontrol_are_enough() -> None:
    assert read_text("KillWait                = 12 sec\n", "-").number("KillWait", 30) == 12


def test_slurmrestd_shows_numbers_lists_and_nothing() -> None:
    conf = from_slurmrestd(
        {
            "KillWait": {"set": True, "infinite": False, "number": 31},
            "DefMemPerNode": {"set": False, "infinite": True, "number": 0},
            "PreemptMode": ["CANCEL"],
            "JobRequeue": True,
            "nested": {"MaxJobCount": 5},
            "Epilog": None,
        },
        "slurmrestd",
    )
    assert conf.number("killwait", 0) == 31
    assert conf.number("DefMemPerNode", 0) == -1
    assert conf.words("PreemptMode") == frozenset({"CANCEL"})
    assert conf.number("JobRequeue", 0) == 1
    assert conf.number("MaxJobCount", 0) == 5
    assert conf.get("Epilog", "x") == ""
    assert conf.get("SelectType", "x") is None
