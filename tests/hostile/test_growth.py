"""No text of a stranger takes more than proportional time, or much memory, wherever it is read."""

import json
import subprocess
import sys
from pathlib import Path

from pydantic import ValidationError

from extender.config.faults import ConfigError
from extender.domain.translation.annotation_table import SETTINGS
from tests.builders import config_texts, stated_keys

TOP = Path(__file__).parents[2]


def test_every_reader_of_untrusted_text_takes_proportional_time_and_bounded_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.builders.growth"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *offences, summary = map(json.loads, done.stdout.splitlines())
    assert offences == []
    keys = len(list(config_texts.readers()))
    assert keys > sum(len(list(config_texts.text_keys(book))) for _, book, _ in config_texts.DOCUMENTS) > 150
    assert summary["readers"] > len(SETTINGS) + 2 * len(stated_keys.stated_keys()) + keys + 30


def test_every_key_that_pods_and_nodes_may_have_is_read_by_the_readers_that_are_measured() -> None:
    """A new key in `wellknown` or `gangs/labels` belongs into a reader, or into the list of those that are not read."""
    seen = stated_keys.keys_read()
    assert [key for key in stated_keys.stated_keys() if key not in seen | stated_keys.SETTING_KEYS] == []
    assert [key for key in stated_keys.NOT_STATED | stated_keys.COMPARED if key in seen] == []


def test_a_text_for_a_key_of_the_configuration_or_policy_is_read_where_the_key_stands() -> None:
    for name, read in config_texts.readers():
        faults: set[str] = set()
        is_unreadable = False
        try:
            read("x")
        except ConfigError:
            is_unreadable = True
        except ValidationError as error:
            faults = {one["type"] for one in error.errors()}
        assert "extra_forbidden" not in faults, name
        assert name.endswith("a fault") or not is_unreadable, name
