"""Defaults of a site for jobs, by the keys of `jobs.defaults` in snake case."""

from typing import Any

from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.translation.annotation_table import WITH_SITE_DEFAULT

_BY_KEY = {setting.default_key: setting for setting in WITH_SITE_DEFAULT}


def job_defaults(**values: Any) -> JobDefaults:
    """Return these defaults, for example `job_defaults(user_id="7")`."""
    defaults = JobDefaults()
    for key, value in values.items():
        defaults = defaults.having(_BY_KEY[key], value)
    return defaults
