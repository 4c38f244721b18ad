"""Whom a job runs as, and what a Pod may ask for only with the site's permission."""

from __future__ import annotations

from extender.domain import settings
from extender.domain.annotations import Chosen
from extender.domain.policy import RESTRICTED_KEYS, JobDefaults, TranslationPolicy


def user_and_group(chosen_user: str | None, chosen_group: str | None, defaults: JobDefaults) -> tuple[str, str]:
    """User and group of the job, "" for those of the token's user.

    A numeric user without a group gets the group of the same number, as in SUNK: slurmctld would take the group of the
    token's owner instead. A name is not copied: a group need not be called like its user, and slurmrestd before 25.05.3
    dies of a group that is no number.
    """
    user, group = chosen_user, chosen_group
    if user is None:
        user, group = defaults.user_id, group or defaults.group_id
    return user, group or (user if user.isdecimal() else "")


def not_allowed(chosen: Chosen, defaults: JobDefaults, policy: TranslationPolicy) -> tuple[str, ...]:
    """A fault for each setting that the site has not permitted. Asking for what one gets anyway needs no permission."""
    user, group = chosen.get(settings.USER_ID), chosen.get(settings.GROUP_ID)
    priority, nice = chosen.get(settings.PRIORITY), chosen.get(settings.NICE)
    wanted = (
        (settings.USER_ID, "user-id", user not in (None, defaults.user_id)),
        (settings.GROUP_ID, "group-id", group not in (None, user_and_group(user, None, defaults)[1])),
        (settings.PRIORITY, "priority", priority not in (None, defaults.priority)),
        (settings.NICE, "priority", nice is not None and nice < min(0, defaults.nice or 0)),
    )
    given = ", ".join(sorted(policy.allowed & RESTRICTED_KEYS)) or "none of them"
    return tuple(
        f"{chosen.says(setting)} is not allowed: it needs the site's permission for {key}; "
        f"of {', '.join(sorted(RESTRICTED_KEYS))} this site permits {given}"
        for setting, key, asked in wanted
        if asked and key not in policy.allowed
    )
