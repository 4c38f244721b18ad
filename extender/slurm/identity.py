"""As whom a placeholder runs, and which of Slurm's two calls can do that.

`POST /job/allocate` runs as its caller and ignores `user_id`; `POST /job/submit` obeys `user_id` and `group_id` of a
request made as root or SlurmUser (`slurmctld proc_req.c`, `_valid_id`). Both want numbers: slurmrestd up to 25.05.2
aborts on the name of a group, and a user without a group gets the group of the token's owner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class IdentityError(Exception):
    """The job cannot run as asked; the text says which value is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of the Slurm cluster. `gid` is the primary group, which whatever runs under the name has."""

    name: str
    uid: int
    gid: int


Users = Callable[[str], User | None]
"""Finds a user by name; `None`: there is no such user."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What goes into a request. `as_user` "": sent as the token's owner. The ids go into the job, both or neither."""

    as_user: str = ""
    uid: int | None = None
    gid: int | None = None


def nobody_known(name: str) -> User | None:
    """`Users` of a site that configured none: every name is unknown."""
    del name
    return None


def submitted_as(user_id: str, group_id: str, users: Users) -> Identity:
    """The identity of a job that is submitted.

    Raises:
        IdentityError: a name is not known, or a group is given without a user.
    """
    if not user_id:
        if group_id:
            raise IdentityError(f"group-id {group_id!r} is given without a user-id; give both or neither")
        return Identity()
    if user_id.isdecimal() and user_id.isascii():
        uid, primary = int(user_id), None
    else:
        user = _named(user_id, users)
        uid, primary = user.uid, user.gid
    if not group_id:
        return Identity(uid=uid, gid=uid if primary is None else primary)
    if not (group_id.isdecimal() and group_id.isascii()):
        raise IdentityError(f"group-id {group_id!r} is a name; Slurm takes groups by number only")
    return Identity(uid=uid, gid=int(group_id))


def allocated_as(user_id: str, group_id: str, caller: User | None, users: Users) -> Identity | None:
    """The identity of an allocation, or `None` where only a submitted job can have what is asked for.

    `caller` is the token's owner, `None` where the site did not say who that is.
    """
    if not user_id and not group_id:
        return Identity()
    try:
        asked = submitted_as(user_id, group_id, users)
    except IdentityError:
        return None
    if caller is not None and (asked.uid, asked.gid) == (caller.uid, caller.gid):
        return Identity()
    user = None if user_id.isdecimal() else users(user_id)
    if user is None or (asked.uid, asked.gid) != (user.uid, user.gid):
        return None
    return Identity(as_user=user.name)


def _named(name: str, users: Users) -> User:
    user = users(name)
    if user is None:
        raise IdentityError(
            f"user-id {name!r} is a name that the configuration does not know; give it there or as number"
        )
    return user
