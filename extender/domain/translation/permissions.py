"""Resolves the user and group of a job, and checks the settings that need the site's permission."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from extender.domain.jobs.job import RunAs
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.site import RESTRICTED_KEYS, TranslationPolicy
from extender.domain.policy.tenancy import JobOwner
from extender.domain.translation import annotation_table as table
from extender.domain.translation.annotation_reader import Chosen
from extender.domain.translation.forms import UINT32_LARGEST
from extender.domain.views import PodView

NAMES_SHOWN = 8
"""An Event has room for 1024 bytes, and for every fault of a Pod."""


def run_as(user: str | None, group: str | None, defaults: JobDefaults, policy: TranslationPolicy) -> RunAs | None:
    """Return user and group of a job whose Pod asked for these; `None`: there is no user, or a name is unknown.

    The site's group belongs to the site's user: another user does not get it, and the same user, asked for by the Pod,
    keeps it.
    """
    site = policy.user(defaults.get(table.USER_ID) or "")
    requested = site if user is None else policy.user(user)
    if requested is None:
        return None
    gid: int | None = requested.gid
    site_group = defaults.get(table.GROUP_ID)
    if group is not None:
        gid = policy.group(group)
    elif site is not None and requested.uid == site.uid:
        gid = site.gid if site_group is None else policy.group(site_group)
    return None if gid is None else RunAs(requested.uid, gid)


def misnamed(chosen: Chosen, defaults: JobDefaults, policy: TranslationPolicy) -> Iterator[str]:
    """Yield a fault for each name of a user or group that the site does not know, and for a group without a user."""
    user, group = chosen.get(table.USER_ID), chosen.get(table.GROUP_ID)
    site_user, site_group = defaults.get(table.USER_ID), defaults.get(table.GROUP_ID)
    says_user = f'the site\'s userId: "{site_user}"' if user is None else chosen.says(table.USER_ID)
    says_group = f'the site\'s groupId: "{site_group}"' if group is None else chosen.says(table.GROUP_ID)
    user = site_user if user is None else user
    group = site_group if group is None else group
    if user and policy.user(user) is None:
        yield f"{says_user} is not a known user; it must be {_known(policy.users)}"
    if group and policy.group(group) is None:
        yield f"{says_group} is not a known group; it must be {_known(policy.groups)}"
    if group and not user:
        yield f"{says_group} is set without a user; set user-id too"


def usurped(owner: JobOwner | None, pod: PodView, policy: TranslationPolicy) -> Iterator[str]:
    """Yield a fault where the name of a namespace or ServiceAccount would make a Pod run as an administrator of Slurm.

    A user who may create namespaces or ServiceAccounts chooses their names.
    """
    if owner is None or not owner.named_after_pod:
        return
    name = owner.defaults(pod).get(table.USER_ID) or ""
    person = None if name.isdecimal() else policy.users.get(name)
    if person is None:
        yield f'the policy makes "{name}" the owner of Pod {pod.full_name}; it must be one of the names in slurm.users'
    elif person.uid == 0 or (policy.caller is not None and person.uid == policy.caller.uid):
        yield f'the policy makes "{name}" the owner of Pod {pod.full_name}; it must not be an administrator of Slurm'


def not_allowed(
    chosen: Chosen,
    defaults: JobDefaults,
    policy: TranslationPolicy,
    decided: Collection[str] = (),
    rule: str = "",
) -> tuple[str, ...]:
    """Return a fault for each setting that the site does not permit. Asking for the default needs no permission.

    For the settings in `decided` the policy's `rule` lists the allowed values.
    """
    user, group = chosen.get(table.USER_ID), chosen.get(table.GROUP_ID)
    priority, nice = chosen.get(table.PRIORITY), chosen.get(table.NICE)
    without_user, without_group = run_as(None, None, defaults, policy), run_as(user, None, defaults, policy)
    chosen_user, chosen_group = policy.user(user or ""), policy.group(group or "")
    other_user = chosen_user is None or without_user is None or chosen_user.uid != without_user.uid
    other_group = chosen_group is None or without_group is None or chosen_group != without_group.gid
    wanted = (
        (table.USER_ID, "user-id", user is not None and other_user),
        (table.GROUP_ID, "group-id", group is not None and other_group),
        (table.PRIORITY, "priority", priority not in (None, defaults.get(table.PRIORITY))),
        (
            table.NICE,
            "priority",
            nice is not None and nice < min(0, defaults.get(table.NICE) or 0),
        ),
    )
    given = ", ".join(sorted(policy.allowed & RESTRICTED_KEYS)) or "none"
    silent = f', since rule "{rule}" of the policy does not list it' if rule else ""
    return tuple(
        f"{chosen.says(setting)} is not allowed{silent}: it needs the site's permission for {key} (jobs.allow); "
        f"this site allows {given}"
        for setting, key, requested in wanted
        if requested and key not in policy.allowed and setting.name not in decided
    )


def _known(names: Iterable[str]) -> str:
    known = sorted(names)
    shown = ", ".join(known[:NAMES_SHOWN]) + (", ..." if len(known) > NAMES_SHOWN else "")
    names = f", or one of the names {shown}" if known else "; no name is known"
    return f"a number from 0 to {UINT32_LARGEST}{names}"
