"""Nodes at which job after job fails while jobs run on other nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from swell.core.record import JobRecord
from swell.core.state import HeadState, JobFailure
from swell.model.job import Phase

#: A node is a suspect when so many jobs have failed on it within this time. A platform drains it. A
#: simulation does not: its jobs fail by their own faults.
NUM_JOBS, WITHIN_S = 3, 3600.0


def failed_by_node(failures: Sequence[JobFailure], node: str, running: Mapping[str, int]) -> list[str]:
    """Ids of the failed jobs of which the node may be the cause; none where jobs do no better elsewhere.

    A failure is the script's own if the same program has failed on another node, too: it does not count. Jobs
    of one program count once, unless that program runs on another node: a user may try a broken script again
    and again. One that failed in its trial run, which is mostly the script's own fault, counts only then. On
    other nodes more jobs must run than have failed.

    Args:
        failures: recent ones, on all nodes.
        running: programs on other nodes, and how many jobs run each.
    """
    elsewhere = [one.program for one in failures if one.node != node]
    if sum(running.values()) <= len(elsewhere):
        return []
    own = [one for one in failures if one.node == node and one.program not in elsewhere]
    own = [one for one in own if one.program in running or not one.is_of_trial]
    return list({one.job_id if one.program in running else one.program: one.job_id for one in own}.values())


def note_failure(
    state: HeadState, record: JobRecord, held: Sequence[str], *, is_of_trial: bool = False
) -> None:
    """The job failed with these devices. Its node is a suspect if it is the likely cause.

    A job on several nodes is not counted: which of them was the cause is not known.
    """
    nodes = {state.cluster.node_of.get(device, "") for device in held}
    if len(nodes) != 1 or "" in nodes:
        return
    (node,) = nodes
    failure = JobFailure(state.now_s, record.id, _program(record), node, is_of_trial)
    recent = [one for one in state.failures if one.at_s > state.now_s - WITHIN_S]
    state.failures = [*recent, failure]
    is_known = any(cause.is_ill for cause in state.warned.get(node, ()))
    if is_known or sum(one.node == node for one in state.failures) < NUM_JOBS:
        return
    others = (one for one in state.records.values() if one.phase is Phase.RUNNING)
    running = Counter(
        _program(one) for one in others if node not in map(state.cluster.node_of.get, one.gang.held)
    )
    if len(jobs := failed_by_node(state.failures, node, running)) >= NUM_JOBS:
        why = f"{len(jobs)} jobs failed on it within an hour ({', '.join(jobs)}), and jobs run on other nodes"
        state.suspects[node] = why


def _program(record: JobRecord) -> str:
    """What a job runs, and for which account; commands of fixed jobs are told apart by their words."""
    return "\n".join((record.account, record.spec.entry, *(record.spec.args if record.spec.fixed else ())))
