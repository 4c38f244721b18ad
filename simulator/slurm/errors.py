"""Errors as slurmctld numbers them (`slurm/slurm_errno.h`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TEXTS = {
    1: "Operation not permitted",
    -1: "Unspecified error",
    11: "Resource temporarily unavailable",
    22: "Invalid argument",
    1007: "Protocol authentication error",
    1800: "Unable to contact slurm controller (connect failure)",
    2000: "Invalid partition name specified",
    2002: "Access/permission denied",
    2007: "Job queue is full",
    2009: "Job script not specified",
    2010: "Invalid user id",
    2012: "Pathname of a file, directory or other parameter too long",
    2013: "Immediate execution impossible, insufficient priority",
    2014: "Requested node configuration is not available",
    2015: "Requested partition configuration not available now",
    2016: "Requested nodes are busy",
    2017: "Invalid job id specified",
    2018: "Invalid node name specified",
    2019: "I/O error writing script/environment to file",
    2020: "Job can not be altered now, try again later",
    2021: "Job/step already completing or completed",
    2028: "Invalid node state specified",
    2029: "Invalid feature specification",
    2031: "Active features not subset of available features",
    2036: "Requested operation not supported on this system",
    2038: "Job dependency problem",
    2053: "Requested reservation is invalid",
    2063: "Job cannot be submitted without the current working directory specified.",
    2068: "Required node not available (down, drained or reserved)",
    2070: "Required partition not available (inactive or drain)",
    2072: "Invalid generic resource (gres) specification",
    2073: "Job is no longer pending execution",
    2078: "Unable to start job immediately",
    2084: "Job has already finished",
    2101: "Partition in DOWN state",
    2115: "Invalid Trackable RESource (TRES) specification",
    2127: "Environment is missing in job",
    2168: "Node already exists in the node table",
    2169: "Unable to add node, node table is full",
    2173: "Invalid signal jobs request, at least one job id or filter is required.",
    2189: "External jobs cannot have a script",
    9000: "Query failed",
    9207: "Unknown flag",
}


DEFAULT_SOURCE = "slurm_sim()"


class SlurmRefusal(Exception):
    """A request that slurmctld or slurmrestd refuses.

    `status` overrides the HTTP status of the release. `beside` is what the reply holds beside the error.
    """

    def __init__(
        self,
        number: int,
        source: str = DEFAULT_SOURCE,
        *,
        text: str = "",
        status: int | None = None,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text or TEXTS.get(number, "Unspecified error"))
        self.number = number
        self.source = source
        self.status = status
        self.beside = dict(beside or {})
