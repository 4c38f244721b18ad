"""As whom a placeholder runs."""

from __future__ import annotations

import pytest

from extender.slurm.identity import Identity, IdentityError, User, allocated_as, nobody_known, submitted_as

ROOT = User("root", 0, 0)
KNOWN = {"root": ROOT, "alice": User("alice", 2001, 3001)}


@pytest.mark.parametrize(
    ("user", "group", "identity"),
    [
        ("", "", Identity()),
        ("2001", "3001", Identity(uid=2001, gid=3001)),
        # SUNK's rule: a missing group-id becomes the user-id.
        ("2001", "", Identity(uid=2001, gid=2001)),
        ("0", "0", Identity(uid=0, gid=0)),
        ("alice", "", Identity(uid=2001, gid=3001)),
        ("alice", "7", Identity(uid=2001, gid=7)),
    ],
)
def test_a_submission_carries_both_numbers_or_neither(user: str, group: str, identity: Identity) -> None:
    assert submitted_as(user, group, KNOWN.get) == identity


@pytest.mark.parametrize(
    ("user", "group", "said"),
    [
        ("", "7", "group-id '7' is given without a user-id"),
        ("carol", "", "user-id 'carol' is a name that the configuration does not know"),
        ("2001", "staff", "group-id 'staff' is a name"),
        ("alice", "staff", "group-id 'staff' is a name"),
        ("²", "", "user-id '²' is a name"),
    ],
)
def test_what_cannot_be_a_number_is_refused_by_its_value(user: str, group: str, said: str) -> None:
    with pytest.raises(IdentityError, match=said):
        submitted_as(user, group, KNOWN.get)


@pytest.mark.parametrize(
    ("user", "group", "identity"),
    [
        ("", "", Identity()),
        ("0", "0", Identity()),
        ("root", "", Identity()),
        ("alice", "", Identity(as_user="alice")),
        ("alice", "3001", Identity(as_user="alice")),
        # slurmctld would take her primary group, which is not the one asked for.
        ("alice", "7", None),
        # A number cannot be impersonated: the header takes names.
        ("2001", "3001", None),
        ("carol", "", None),
        ("", "7", None),
    ],
)
def test_an_allocation_runs_as_its_caller_or_as_a_named_user_with_her_own_group(
    user: str, group: str, identity: Identity | None
) -> None:
    assert allocated_as(user, group, ROOT, KNOWN.get) == identity


def test_without_a_known_caller_only_names_can_be_allocated_for() -> None:
    assert allocated_as("0", "0", None, KNOWN.get) is None
    assert allocated_as("alice", "", None, KNOWN.get) == Identity(as_user="alice")
    assert allocated_as("alice", "", None, nobody_known) is None
