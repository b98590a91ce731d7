"""Columns of `squeue` and `sinfo`, which are the same in all versions, and how they are read."""

from __future__ import annotations

import re

from swell.executors.slurm.slurm_port import SliceJob, SlurmNode, SlurmPartition
from swell.slurm_time import slurm_seconds

#: Behind which no column stands that may have it, too: reasons are last.
SEPARATOR = "|"
JOB_COLUMNS = "%A|%T|%N|%L|%l|%S|%r"
NODE_COLUMNS = "%N|%T|%E"
#: What the time of a start looks like: %S is asked for with SLURM_TIME_FORMAT=%s.
_SECONDS = re.compile(r"[0-9]+")
#: No value, in Slurm's words.
_NONE = ("", "(null)", "none", "None", "N/A", "n/a")


class StrangeOutput(ValueError):
    """A program of Slurm has printed what is not in the columns that it was asked for."""


def parse_jobs(text: str) -> tuple[SliceJob, ...]:
    """Jobs, as `squeue -h -o JOB_COLUMNS` prints them. Raises StrangeOutput."""
    return tuple(_job(line) for line in text.splitlines() if line.strip())


def _job(line: str) -> SliceJob:
    job_id, state, node, left, limit, start, reason = _columns(line, JOB_COLUMNS)
    return SliceJob(
        id=_number(job_id, line),
        state=state.strip().upper(),
        node=_value(node),
        left_s=parse_duration(left),
        limit_s=parse_duration(limit),
        started_s=float(start) if _SECONDS.fullmatch(start) else None,
        reason=_value(reason),
    )


def parse_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Nodes, as `sinfo -h -N -o NODE_COLUMNS` prints them, each once. Raises StrangeOutput."""
    nodes = (_node(line) for line in text.splitlines() if line.strip())
    return tuple({node.name: node for node in nodes}.values())


def _node(line: str) -> SlurmNode:
    name, state, reason = _columns(line, NODE_COLUMNS)
    return SlurmNode(name=name.strip(), state=state.strip().lower(), reason=_value(reason))


def parse_partition(text: str) -> SlurmPartition:
    """A partition, as `scontrol show partition --oneliner` prints it. Raises StrangeOutput."""
    words = dict(word.partition("=")[::2] for word in text.split())
    if "PartitionName" not in words:
        raise StrangeOutput(f"scontrol printed {text.strip()[:80]!r}, which is no partition")
    grace = words.get("GraceTime", "0")
    return SlurmPartition(
        name=words["PartitionName"],
        grace_s=float(grace) if _SECONDS.fullmatch(grace) else 0.0,
        max_s=parse_duration(words.get("MaxTime", "")),
        is_up=words.get("State", "UP").upper() == "UP",
    )


def parse_duration(text: str) -> float | None:
    """Seconds of `MINUTES`, `MIN:SEC`, `HOURS:MIN:SEC`, `DAYS-HOURS[:MIN[:SEC]]`; None: it is no limit."""
    try:
        return float(slurm_seconds(text.strip()))
    except ValueError:
        return None


def _columns(line: str, asked: str) -> list[str]:
    num = asked.count(SEPARATOR) + 1
    columns = line.split(SEPARATOR, num - 1)
    if len(columns) != num:
        raise StrangeOutput(f"Slurm printed {line[:80]!r} in place of the columns {asked}")
    return columns


def _number(text: str, line: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise StrangeOutput(f"Slurm printed {line[:80]!r}, which has no number of a job") from None


def _value(text: str) -> str:
    return "" if text.strip() in _NONE else text.strip()
