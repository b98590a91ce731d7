"""Names of hosts in slices: `NODE-JOBID`, and `NODE-JOBIDrN` after the job was requeued N times."""

from __future__ import annotations

import re

_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_CHARACTERS = 40
_FORM = re.compile(r".+-(?P<job>[0-9]+)(?:r[0-9]+)?")


def host_name(node: str, job_id: int, num_requeues: int = 0) -> str:
    """Return the name of a host, in the form that hosts have; no other host of a platform has the same."""
    suffix = f"-{job_id}" + (f"r{num_requeues}" if num_requeues else "")
    plain = _STRANGE.sub("-", node).strip("-")[: _MAX_CHARACTERS - len(suffix)] or "node"
    return f"{plain}{suffix}"


def job_of(host: str) -> int | None:
    """Return the id of the Slurm job that runs the host of this name; None: it is no such name."""
    found = _FORM.fullmatch(host)
    return int(found["job"]) if found else None
