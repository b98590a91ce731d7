"""How often a job is saved, and what its story says of it."""

from __future__ import annotations

from swell.checkpoint_interval import LEAST_S, MOST_S
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.lengths import span

#: Another interval is news if it is longer or shorter by this factor.
NEWS_FACTOR = 2.0


def note_save_time(state: HeadState, record: JobRecord, save_s: float) -> None:
    """A report has told what checkpoints of the job take from its training."""
    record.save_s = save_s
    chosen_s = record.checkpoint_interval_s
    mean_s = record.gang.goal.mean_time_to_loss_s
    if chosen_s is None or mean_s is None:
        return
    told_s = record.told_interval_s
    if told_s and 1.0 / NEWS_FACTOR < chosen_s / told_s < NEWS_FACTOR:
        return
    record.told_interval_s = chosen_s
    bound = {LEAST_S: ", the shortest interval", MOST_S: ", the longest interval"}.get(chosen_s, "")
    text = (
        f"is saved every {span(chosen_s)}{bound}: a checkpoint takes {span(save_s)} from training, and "
        f"unsaved training is expected to be lost once in {span(mean_s)}"
    )
    state.tell(record, "checkpoints", text)
