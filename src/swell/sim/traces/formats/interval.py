"""How long a job ran, where a log says when it was submitted, began and ended."""

from __future__ import annotations

from swell.sim.traces.record import LineRemarks
from swell.sim.traces.table import Row

#: Logs round to seconds, some upwards.
TOLERANCE_S = 1.5


def take_interval(row: Row, remarks: LineRemarks) -> None:
    """Turns `start_s` and `end_s` of a row into `duration_s` and `ended_after_s`.

    End less start counts where both are there, for a column `duration` includes the wait in some logs.
    """
    start_s, end_s = row.pop("start_s", None), row.pop("end_s", None)
    if end_s is None:
        return
    if row["submit_s"] is not None:
        row["ended_after_s"] = end_s - row["submit_s"]
    if start_s is None:
        return
    said_s = row.get("duration_s")
    row["duration_s"] = end_s - start_s
    if said_s is not None and abs(said_s - row["duration_s"]) > TOLERANCE_S:
        remarks.add("column duration is not end less start; end less start counts")
