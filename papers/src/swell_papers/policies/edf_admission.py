"""Earliest deadline first behind a gate: ElasticFlow's admission control without its elastic scaling."""

from __future__ import annotations

import numpy as np

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels, all_levels, useful_levels
from swell.policies.order import by_deadline
from swell.policies.policy import Policy
from swell.policies.refusing import with_refusals
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import SeparatePart, raise_within
from swell_papers.policies.edf_feasibility import EdfForecast


class EdfAdmission(Policy):
    """A job is admitted only if it and all that were admitted before it would end in time under EDF.

    Those admitted are served as `edf` serves them, then jobs with soft deadlines, then best-effort ones.

    References: Gu et al., ElasticFlow, ASPLOS 2023, section 6.4, Figure 9: "EDF + Admission Control".
    Deviates: sizes are cut at the peak of a curve, as in `edf`; one job at a time is admitted, where the
        published simulator decides on all that came in a slot together; a refusal names a deadline
        that would be promised.
    """

    name = "edf_admission"
    makes_promises = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = self._levels(snapshot)
        gate = EdfForecast(snapshot, levels)
        gate.admit()
        is_other = np.ones(snapshot.num_jobs, dtype=bool)
        is_other[gate.kept] = is_other[list(gate.refusals)] = False
        order = np.concatenate([gate.kept, by_deadline(snapshot, np.flatnonzero(is_other))])
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        own = SeparatePart(snapshot.num_owned, snapshot.needs_owned)
        raise_within(level, levels.devices, levels.num, order, levels.highest, snapshot.num_devices, own)
        answer = without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "the most useful workers that jobs with earlier deadlines leave free",
            "jobs with earlier deadlines come first",
        )
        # What was foreseen at the gate holds only if each promised job has just these sizes.
        floor = np.zeros_like(answer.workers)
        floor[gate.kept] = answer.workers[gate.kept]
        return with_refusals(answer, gate.refusals, floor)

    def _levels(self, snapshot: Snapshot) -> Levels:
        return useful_levels(snapshot)  # section 6.1: cut at the peak


class EdfAdmissionLargest(EdfAdmission):
    """The same, but with the largest size that a job may have, be it slower than a smaller one.

    References: the published simulator of ElasticFlow; see `edf.EdfLargest`.
    Deviates: from section 6.1 of the paper, which says "without decreasing the throughput"; and from the
        simulator, whose gate expects no costs of starts and resizes, and so breaks promises.
    """

    name = "edf_admission_largest"

    def _levels(self, snapshot: Snapshot) -> Levels:
        return all_levels(snapshot)
