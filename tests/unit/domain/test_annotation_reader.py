"""Settings are read from three prefixes, and everything wrong with them is said in a sentence."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.generate.annotations import render
from extender.domain.jobs.job import Exclusive, Mode
from extender.domain.policy.site import RESTRICTED_KEYS, TimeoutUnit, TranslationPolicy
from extender.domain.printable import printable
from extender.domain.translation import annotation_table as table
from extender.domain.translation.annotation_reader import Reading, read_settings
from extender.domain.translation.annotation_table import SETTINGS, Setting
from extender.domain.translation.forms import Instant, Unsent
from extender.domain.wellknown import JOB_ID, NODE, Reason

OWN, SUNK, BRIDGE = "slurm-extender.io/", "sunk.coreweave.com/", "slurmjob.slinky.slurm.net/"

# The complete vocabulary of the two peers; every word of it has to keep working.
SUNK_KEYS = {
    *("account", "partition", "qos", "reservation", "comment", "constraints", "prefer", "excluded-nodes"),
    *("required-nodes", "exclusive", "priority", "user-id", "group-id", "current-working-dir", "timeout"),
}
BRIDGE_KEYS = {
    *("account", "constraints", "cpu-per-task", "exclusive", "gres", "group-id", "user-id", "job-name", "licenses"),
    *("max-nodes", "min-nodes", "mem-per-node", "partition", "qos", "reservation", "wckey", "priority", "timelimit"),
}


def read(
    annotations: dict[str, str], root: dict[str, str] | None = None, unit: TimeoutUnit = TimeoutUnit.MINUTES
) -> Reading:
    return read_settings(annotations, root or {}, TranslationPolicy(sunk_timeout_unit=unit))


def value(setting: Setting[Any], text: str) -> object:
    reading = read({OWN + setting.name: text})
    assert reading.faults == ()
    return reading.chosen.get(setting)


def fault(setting: Setting[Any], text: str) -> str:
    (sentence,) = read({OWN + setting.name: text}).faults
    return sentence


def test_every_key_of_either_peer_is_a_setting_and_has_a_key_of_the_extender() -> None:
    assert table.BY_SUNK_NAME.keys() == SUNK_KEYS
    assert table.BY_BRIDGE_NAME.keys() == BRIDGE_KEYS
    assert len(table.BY_NAME) == len(SETTINGS)
    assert {setting.name for setting in SETTINGS} >= RESTRICTED_KEYS


@pytest.mark.parametrize("prefix", [OWN, SUNK, BRIDGE])
def test_one_setting_means_the_same_under_each_prefix(prefix: str) -> None:
    assert read({prefix + "account": "physics"}).chosen.get(table.ACCOUNT) == "physics"


def test_values_that_mean_the_same_agree_across_prefixes() -> None:
    reading = read(
        {OWN + "exclusive": "none", SUNK + "exclusive": "true", OWN + "user-id": "007", SUNK + "user-id": "7"}
    )
    assert reading.faults == ()
    assert reading.chosen.get(table.EXCLUSIVE) is Exclusive.NONE
    assert reading.chosen.get(table.USER_ID) == "7"


def test_two_values_under_two_prefixes_are_a_fault_that_names_both() -> None:
    (sentence,) = read({OWN + "time-limit": "10"}, {BRIDGE + "timelimit": "20"}).faults
    assert f'{BRIDGE}timelimit: "20" contradicts {OWN}time-limit: "10"' in sentence


def test_the_pod_goes_before_its_root_owner_under_the_same_prefix() -> None:
    reading = read({BRIDGE + "qos": "high"}, {BRIDGE + "qos": "low", BRIDGE + "account": "physics"})
    assert reading.faults == ()
    assert reading.chosen.get(table.QOS) == "high"
    assert reading.chosen.get(table.ACCOUNT) == "physics"


@pytest.mark.parametrize("prefix", [OWN, SUNK])
def test_only_slurm_bridges_keys_count_on_the_root_owner(prefix: str) -> None:
    assert read({}, {prefix + "account": "physics"}) == read({})


def test_an_unknown_key_of_the_extender_is_a_fault_with_the_nearest_one() -> None:
    (sentence,) = read({OWN + "acount": "x"}).faults
    assert sentence == f"{OWN}acount: there is no such setting; did you mean {OWN}account?"


@pytest.mark.parametrize("prefix", [SUNK, BRIDGE])
def test_an_unknown_key_of_a_peer_is_only_announced(prefix: str) -> None:
    reading = read({prefix + "brand-new": "x"})
    assert reading.faults == ()
    assert [(n.reason, n.text.split()[0]) for n in reading.notices] == [
        (Reason.UNKNOWN_SLURM_SETTING, prefix + "brand-new")
    ]


def test_what_the_extender_and_sunks_controllers_write_is_skipped() -> None:
    written = {JOB_ID: "7", NODE: "k1", SUNK + "lock": "pending", SUNK + "drain": "true"}
    assert read(written) == read({})


def test_an_empty_value_says_nothing() -> None:
    assert read({OWN + "priority": "", SUNK + "account": " ", BRIDGE + "qos": ""}, {BRIDGE + "qos": "low"}) == read({})


def test_space_around_a_value_is_not_part_of_it() -> None:
    assert value(table.ACCOUNT, " physics\n") == "physics"


def test_all_faults_are_said_at_once() -> None:
    assert (
        len(
            read({OWN + "time-limit": "soon", SUNK + "priority": "x", BRIDGE + "min-nodes": "0", OWN + "no": ""}).faults
        )
        == 4
    )


@pytest.mark.parametrize(("unit", "minutes"), [(TimeoutUnit.MINUTES, 90), (TimeoutUnit.SECONDS, 2)])
def test_sunks_timeout_counts_what_the_site_says_and_the_extenders_counts_minutes(
    unit: TimeoutUnit, minutes: int
) -> None:
    assert read({SUNK + "timeout": "90"}, unit=unit).chosen.get(table.TIME_LIMIT) == minutes
    assert read({OWN + "time-limit": "90"}, unit=unit).chosen.get(table.TIME_LIMIT) == 90


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [
        (table.EXCLUSIVE, "mcs", Exclusive.MCS),
        (table.EXCLUSIVE, "True", Exclusive.NONE),
        (table.EXCLUSIVE, "false", Unsent.AS_THE_PARTITION_SAYS),
        (table.USER_ID, "alice", "alice"),
        (table.PRIORITY, "0", 0),
        (table.NICE, "-100", -100),
        (table.CPUS, "2500m", 3),
        (table.MEMORY, "16G", 15259),
        (table.MODE, "Batch", Mode.BATCH),
        (table.REQUIRED_NODES, "b, a,n[1-2]", ("a", "b", "n1", "n2")),
        (table.GRES, "gpu:a100:2", "gres/gpu:a100:2"),
        (table.GRES, "gres/gpu:2,shard", "gres/gpu:2,gres/shard"),
        (table.GRES, "gres:gpu=2, bandwidth:4g", "gres/gpu=2,gres/bandwidth:4g"),
        (table.GRES, "gpu:1g.10gb:2", "gres/gpu:1g.10gb:2"),
        (table.BEGIN, "1900000000", Instant(1_900_000_000)),
        (table.BEGIN, "2030-03-17T17:46:40Z", Instant(1_900_000_000)),
        (table.BEGIN, "2030-03-17T19:46:40+02:00", Instant(1_900_000_000)),
        (table.BEGIN, "now", Instant(0, relative=True)),
        (table.BEGIN, "now+90", Instant(90, relative=True)),
        (table.DEADLINE, "now+2days", Instant(172_800, relative=True)),
        (table.COMMENT, "größer als üblich", "größer als üblich"),
        (table.COMMENT, "x" * 1023, "x" * 1023),
        (table.BEGIN, "1970-01-01T00:00:00Z", Instant(0)),
        (table.PARTITION, "gpu,batch", "gpu,batch"),
    ],
)
def test_a_value_is_read_as_its_form_says(setting: Setting[Any], text: str, expected: object) -> None:
    assert value(setting, text) == expected


@pytest.mark.parametrize(
    ("setting", "text", "allowed"),
    [
        (table.TIME_LIMIT, "0", "minutes from 1 to"),
        (table.TIME_LIMIT, "1w", "minutes from 1 to"),
        (table.PRIORITY, "-1", "from 0 to 4294967293"),
        (table.PRIORITY, "4294967294", "from 0 to 4294967293"),
        (table.NICE, "2147483646", "from -2147483645 to 2147483645"),
        (table.EXCLUSIVE, "yes", "one of none, ok, user, mcs, topo, node, true, false"),
        (table.MODE, "array", "one of batch, allocation, external, auto"),
        (table.USER_ID, "4294967294", "a number from 0 to"),
        (table.USER_ID, "a b", "or a name"),
        (table.GROUP_ID, "-1", "or a name"),
        (table.CPUS, "0", "a Kubernetes quantity of CPUs above 0"),
        (table.MEMORY, "16GB", "such as 16Gi"),
        (table.GRES, "gpu:", "gpu:a100:2"),
        (table.GRES, "2", "gpu:a100:2"),
        (table.GRES, "gpu 2", "gpu:a100:2"),
        (table.WORKING_DIR, "home", "an absolute path"),
        (table.ACCOUNT, "a b", "without white space"),
        (table.PARTITION, "a,,b", "separated by commas"),
        (table.COMMENT, "a\x00b", "one line of text"),
        (table.COMMENT, "a\nb", "one line of text"),
        (table.COMMENT, "ä" * 512, "at most 1023 bytes"),
        (table.EXCLUDED_NODES, "n[3-1]", "the range '3-1' runs backwards)"),
        (table.BEGIN, "2030-01-31T08:00:00", "a time with its zone"),
        (table.BEGIN, "tomorrow", "now+<count>"),
        (table.BEGIN, "1969-12-31T23:59:59Z", "seconds since the epoch"),
        (table.DEADLINE, "now+1year", "now+<count>"),
        (table.GPU_TYPE, "a:b", "letters, digits"),
    ],
)
def test_a_value_of_another_form_is_a_fault_with_key_value_and_what_is_allowed(
    setting: Setting[Any], text: str, allowed: str
) -> None:
    sentence = fault(setting, text)
    assert sentence.startswith(f'{OWN}{setting.name}: "{printable(text)[:70]}')
    assert allowed in sentence


@pytest.mark.parametrize(("length", "shown"), [(80, "x" * 80), (81, "x" * 77 + "...")])
def test_a_long_value_is_shown_by_its_beginning(length: int, shown: str) -> None:
    assert fault(table.TIME_LIMIT, "x" * length).startswith(f'{OWN}time-limit: "{shown}" is not allowed')


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200b", "\ufeff", "\u00ad", "\u2028", "\x1b", "\u0085"])
@pytest.mark.parametrize(
    "setting",
    [
        table.COMMENT,
        table.JOB_NAME,
        table.ACCOUNT,
        table.PARTITION,
        table.WORKING_DIR,
    ],
)
def test_text_that_is_shown_as_another_text_is_refused_and_shown_by_its_escapes(
    setting: Setting[Any], character: str
) -> None:
    sentence = fault(setting, f"/a{character}b")
    assert character not in sentence
    assert printable(character) in sentence


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_value_of_a_quarter_of_a_megabyte_is_refused_before_it_is_read(setting: Setting[Any]) -> None:
    for prefix, name in ((OWN, setting.name), (SUNK, setting.sunk), (BRIDGE, setting.bridge)):
        if name:
            (sentence,) = (
                read({}, {prefix + name: "1" * 250_000}).faults
                if prefix == BRIDGE
                else read({prefix + name: "1" * 250_000}).faults
            )
            assert "the value has more than 4096 characters; shorten it" in sentence
            assert len(sentence) < 400


def test_of_thousands_of_faults_some_are_described_and_the_rest_is_counted() -> None:
    faults = read({f"{OWN}account-{number:05d}" + "x" * 40: "a" for number in range(9000)}).faults
    assert len(faults) == 21
    assert faults[-1] == "8980 more annotations are wrong; correct these first"
    assert sum(map(len, faults)) < 5000


def test_thousands_of_unknown_keys_of_a_peer_are_one_notice() -> None:
    (notice,) = read({f"{BRIDGE}key-{number:05d}": "a" for number in range(6000)}).notices
    assert notice.text.startswith(f"{BRIDGE}key-00000, {BRIDGE}key-00001, ")
    assert notice.text.endswith(" and 5995 more are unknown and have no effect")


@given(st.sampled_from([OWN, SUNK, BRIDGE]), st.text(min_size=1))
def test_any_unknown_key_is_reported_in_visible_characters(prefix: str, name: str) -> None:
    reading = read({prefix + name: "x"})
    assert all(one.isprintable() for one in (*reading.faults, *(notice.text for notice in reading.notices)))


@given(st.sampled_from(SETTINGS), st.text())
def test_any_text_is_either_a_value_or_one_printable_sentence(setting: Setting[Any], text: str) -> None:
    reading = read({OWN + setting.name: text})
    if text.strip() and not reading.chosen.given:
        assert len(reading.faults) == 1
        assert reading.faults[0].isprintable()
        assert len(reading.faults[0]) < 1000
    else:
        assert reading.faults == ()


@given(st.dictionaries(st.sampled_from([OWN, SUNK, BRIDGE]).flatmap(lambda p: st.text().map(p.__add__)), st.text()))
def test_no_annotations_break_the_reading(annotations: dict[str, str]) -> None:
    assert dataclasses.is_dataclass(read(annotations, annotations))


def test_the_page_of_annotations_is_printed_from_the_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "annotations.md"
    assert page.read_text(encoding="utf-8") == render(), (
        "docs/reference/annotations.md is stale: python -m docs.generate.annotations > docs/reference/annotations.md"
    )


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90),
        ("90m", 90),
        ("24h", 1440),
        ("1h30m", 90),
        ("1d12h", 2160),
        ("61s", 2),
        ("1-00:00:00", 1440),
        ("1-12", 2160),
        ("1-12:30", 2190),
        ("02:00:00", 120),
        ("00:00:01", 1),
        ("90:00", 90),
        ("10:30", 11),
    ],
)
def test_a_time_limit_is_read_as_sbatch_reads_it_or_with_units(text: str, minutes: int) -> None:
    assert read({OWN + "time-limit": text}).chosen.get(table.TIME_LIMIT) == minutes
    assert read({}, {BRIDGE + "timelimit": text}).chosen.get(table.TIME_LIMIT) == minutes


@pytest.mark.parametrize(
    "text", ["0", "-5", "0:00", "1-", "-1", "1:2:3:4", "1h2d", "m", "1w", "9999999-00", "UNLIMITED"]
)
def test_a_time_limit_that_slurm_could_not_have_is_a_fault_with_examples(text: str) -> None:
    (sentence,) = read({OWN + "time-limit": text}).faults
    assert "1-12:00:00 (days-hours:minutes:seconds)" in sentence


def test_a_node_for_one_job_can_be_requested_in_the_word_of_a_node() -> None:
    assert read({OWN + "exclusive": "node"}).chosen.get(table.EXCLUSIVE) is Exclusive.NONE


def test_the_annotation_for_admission_is_no_setting() -> None:
    reading = read({OWN + "opt-out": "true"})
    assert (reading.faults, reading.notices) == ((), ())
