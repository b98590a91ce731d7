"""Orders of rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.policies.snapshots import snapshots

from swell.model.snapshot import Snapshot


@given(snapshots(), st.data())
def test_rows_come_by_keys_then_by_priority_then_by_submission_then_by_id(
    view: Snapshot, data: st.DataObject
) -> None:
    everybody = range(view.num_jobs)
    rows = data.draw(st.lists(st.sampled_from(everybody), unique=True) if view.num_jobs else st.just([]))

    def by_arrival(row: int) -> tuple[int, float, str]:
        return -int(view.priority[row]), float(view.submitted_s[row]), view.job_ids[row]

    def by_class_and_deadline(row: int) -> tuple[int, float, tuple[int, float, str]]:
        return int(view.job_class[row]), float(view.deadline_s[row]), by_arrival(row)

    for some in (everybody, rows):
        assert view.in_order(some).tolist() == sorted(some, key=by_arrival)
        found = view.in_order(some, view.job_class, view.deadline_s)
        assert found.tolist() == sorted(some, key=by_class_and_deadline)
