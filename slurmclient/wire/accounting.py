"""Read associations and shares from JSON."""

from __future__ import annotations

from slurmclient.models.accounting import Association, JobRecord, Share
from slurmclient.number import decode_integer, decode_limit, decode_number
from slurmclient.wire.fields import Raw, flag, integer, mapping, require_id, require_text, text, words
from slurmclient.wire.job import read_exit_code


def read_association(raw: Raw) -> Association:
    """Read one association.

    Raises:
        ProtocolError: the record has no account.
    """
    jobs = mapping(mapping(raw, "max"), "jobs")
    active = jobs.get("active")
    identity = raw.get("id")
    # 24.11 reports 0 for every association (26.05 its real id); no association has that one.
    found = decode_integer(identity.get("id") if isinstance(identity, dict) and "id" in identity else identity)
    return Association(
        id=found or None,
        account=require_text(raw, "account"),
        cluster=text(raw, "cluster"),
        user=text(raw, "user"),
        partition=text(raw, "partition"),
        parent_account=text(raw, "parent_account"),
        is_default=flag(raw, "is_default"),
        default_qos=text(mapping(raw, "default"), "qos"),
        qos=words(raw, "qos"),
        shares=decode_integer(raw.get("shares_raw")),
        priority=decode_limit(raw.get("priority")),
        max_jobs=decode_limit(active),
        max_submit_jobs=decode_limit(jobs.get("total")),
    )


def read_share(raw: Raw) -> Share:
    """Read one line of fair shares.

    Raises:
        ProtocolError: the record has no name.
    """
    fairshare = mapping(raw, "fairshare")
    return Share(
        id=decode_integer(raw.get("id")),
        name=require_text(raw, "name"),
        parent=text(raw, "parent"),
        cluster=text(raw, "cluster"),
        partition=text(raw, "partition"),
        is_user="USER" in words(raw, "type"),
        shares=decode_number(raw.get("shares")),
        shares_normalized=decode_number(raw.get("shares_normalized")),
        usage=decode_number(raw.get("usage")),
        usage_normalized=decode_number(raw.get("usage_normalized")),
        effective_usage=decode_number(raw.get("effective_usage")),
        fairshare_factor=decode_number(fairshare.get("factor")),
        fairshare_level=decode_number(fairshare.get("level")),
    )


def read_job_record(raw: Raw) -> JobRecord:
    """Read one job of slurmdbd.

    Raises:
        ProtocolError: the record has no job id.
    """
    times = mapping(raw, "time")
    return JobRecord(
        job_id=require_id(raw, "job_id"),
        name=text(raw, "name"),
        submitted_at=integer(times, "submission"),
        ended_at=integer(times, "end"),
        derived_exit_code=read_exit_code(mapping(raw, "derived_exit_code")),
        comment=text(mapping(raw, "comment"), "job"),
    )
