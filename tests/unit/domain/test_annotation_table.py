"""The table of settings names fields that exist, and its values have the types of these fields."""

from typing import Any, get_type_hints

import pytest
from pydantic import TypeAdapter

from extender.config.schema_keys import CONFIGURATION
from extender.domain.jobs.job import Exclusive, JobOrder, JobRequest, Mark, Mode
from extender.domain.translation.annotation_table import SETTINGS, WITH_SITE_DEFAULT, Setting
from extender.domain.translation.forms import Instant, Switches
from extender.slurm.describe import describe
from extender.slurm.placeholder_script import HookSettings
from slurmclient import JobDescription

COMPUTED = {"title", "cpus", "memory_mb", "tres_per_node", "excluded_nodes", "min_nodes", "max_nodes"}
"""Fields of a request that reach Slurm together with others, or in another form."""

EXAMPLES = (
    "7",
    "node-1",
    "/home/alice",
    "gpu:1",
    "2030-01-31T08:00:00Z",
    "none",
    "batch",
    "keep",
    "pack",
    "keep-allocation",
)


def example(setting: Setting[Any]) -> Any:
    """Return a value of the setting."""
    for text in EXAMPLES:
        try:
            value = setting.form.read(text)
        except ValueError:
            continue
        if isinstance(value, Switches):
            return value.count
        return value.at(0.0) if isinstance(value, Instant) else value
    raise AssertionError(f"no example is a value of {setting.name}")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_value_of_a_setting_has_the_type_of_its_field_of_the_request(setting: Setting[Any]) -> None:
    if setting.request:
        field = get_type_hints(JobRequest)[setting.request]
        TypeAdapter(field).validate_python(example(setting), strict=True)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_value_of_a_setting_has_the_type_of_its_field_of_slurm_and_reaches_it(setting: Setting[Any]) -> None:
    if not setting.slurm:
        gangs = {"gang", "gang-size", "gang-layout", "gang-restart", "on-node-failure"}
        assert setting.name in {"gpu-type", "mode", *gangs}
        return
    field = get_type_hints(JobDescription)[setting.slurm]
    if setting.request and setting.request not in COMPUTED:
        fields: dict[str, Any] = {"title": "a", "cpus": 1, "memory_mb": 1} | {setting.request: example(setting)}
        order = JobOrder(JobRequest(**fields), "a-1", Mark("c", "s", "u", 1), Mode.EXTERNAL, immediate=False)
        sent = getattr(describe(order, "the mark", HookSettings()), setting.slurm)
        TypeAdapter(field).validate_python(sent, strict=True)
        assert sent == example(setting) or isinstance(example(setting), Exclusive)


def test_each_setting_with_a_site_default_is_a_key_of_the_configuration_with_its_meaning() -> None:
    keys = {path[-1]: key.description for path, key in CONFIGURATION.keys.items() if path[:2] == ("jobs", "defaults")}
    keys.pop("defaults")
    assert list(keys.values()) == [setting.site_default for setting in WITH_SITE_DEFAULT]
