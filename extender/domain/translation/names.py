"""Checks names of partitions, accounts, QOS, reservations and MCS labels that a Pod gives against the site's lists.

A rule of the policy that lists the allowed names decides instead (`allowance`). A default of the site needs no
permission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.named import Nameable
from extender.domain.policy.selectors import fits
from extender.domain.policy.tenancy import Allowed
from extender.domain.translation import annotation_table as table
from extender.domain.translation.annotation_reader import Chosen

_NOTHING = Allowed()


def unlisted(
    chosen: Chosen,
    defaults: JobDefaults,
    allowed: Allowed | None,
    nameable: Nameable | None,
    restricted: Mapping[str, str],
) -> Iterator[str]:
    """Yield a fault for each name that is in no list of the site.

    `allowed` is what the policy's rule for the Pod says. `nameable`: `None` where there is no configuration to ask.
    `restricted` are the partitions that not all users may use, with the reasons.
    """
    if nameable is None:
        return
    rule = allowed or _NOTHING
    for setting, ruled, patterns, key in (
        (table.PARTITION, rule.partition, nameable.partitions, "partitions"),
        (table.ACCOUNT, rule.account, nameable.accounts, "accounts"),
        (table.QOS, rule.qos, nameable.qos, "qos"),
        (table.RESERVATION, rule.reservation, nameable.reservations, "reservations"),
        (table.MCS_LABEL, None, nameable.mcs_labels, "mcsLabels"),
    ):
        text, default_value = chosen.get(setting), defaults.get(setting)
        if ruled is not None or text is None or text == default_value:
            continue
        given = set((default_value or "").split(","))
        for name in dict.fromkeys(text.split(",")):
            if name in given or fits(name, patterns):
                continue
            if setting is table.PARTITION:
                if name in restricted:
                    yield (
                        f"{chosen.says(setting)} is not allowed: Slurm restricts partition {name} "
                        f"({restricted[name]}); the site may list it in jobs.partitions or in a rule of its policy"
                    )
            else:
                yield (
                    f"{chosen.says(setting)} is not allowed: {name} is not in jobs.{key} of the site's configuration, "
                    "and no rule of its policy allows it"
                )
