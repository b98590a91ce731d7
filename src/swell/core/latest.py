"""What the latest plan says of each job: written down when somebody asks, for most of it nobody reads."""

from __future__ import annotations

from collections.abc import Mapping

from swell.core.record import JobRecord
from swell.model.plan import Plan


class Latest:
    """Reasons and estimates that are yet to be written into the records.

    They depend on what the plan was made of, and not on when they are asked for.
    """

    def __init__(self, plan: Plan | None = None) -> None:
        self._plan = plan
        self._explained: set[str] = set()

    def note_explained(self, job_id: str) -> None:
        """Since the plan was made, something else was said of why this job has what it has."""
        self._explained.add(job_id)

    def write(self, records: Mapping[str, JobRecord]) -> None:
        """Bring reasons and estimates up to date."""
        plan = self._plan
        if plan is None:
            return
        finish_s = plan.account.finish_s.tolist()
        for row, job_id in enumerate(plan.job_ids):
            if job_id in records:
                self._write(records[job_id], plan, row, finish_s[row])
        self._plan = None

    def write_one(self, record: JobRecord) -> None:
        """The next plan will not know this job: what the latest one says of it stays."""
        plan = self._plan
        if plan is not None and record.id in plan.job_ids:
            row = plan.job_ids.index(record.id)
            self._write(record, plan, row, float(plan.account.finish_s[row]))

    def _write(self, record: JobRecord, plan: Plan, row: int, finish_s: float) -> None:
        record.estimated_finish_s = finish_s
        if record.id not in self._explained:
            record.reason = plan.account.reason(row).text
