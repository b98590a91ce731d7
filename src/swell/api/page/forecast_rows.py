"""What the answer of *What if* shows: each job as things are and as they would be, and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from swell.api.page.job_rows import NOTHING
from swell.api.page.question import Answer
from swell.model.job import JobClass, Phase
from swell.model.lengths import span

if TYPE_CHECKING:
    from swell.api.what_if import Forecast, WhatIf
    from swell.sim.what_if import JobForecast

#: Less is noise of the step under way.
NOTICED_S = 0.5


class EndCell(msgspec.Struct, frozen=True, kw_only=True):
    """How one job ends in one of the two futures."""

    at_s: float | None = None
    text: str = ""
    standing: str = "free"  #: as of the Now view


class ForecastRow(msgspec.Struct, frozen=True, kw_only=True):
    """One job in both."""

    id: str
    name: str
    cls: str
    deadline_s: float | None
    is_hypothetical: bool
    now: EndCell
    then: EndCell
    difference: str
    trend: str  #: `sooner`, `later`, `same` or `new`


class TotalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the whole platform in both. Numbers or texts; times have `is_time`."""

    name: str
    now: str | int | float | None
    then: str | int | float | None
    is_time: bool = False
    is_wanted: bool | None = None  #: that it rises; None: neither way is better

    @property
    def trend(self) -> str:
        """`better`, `worse`, `other` or `same`."""
        if self.now == self.then:
            return "same"
        if self.is_wanted is None or self.now is None or self.then is None:
            return "other"
        more = float(self.then) - float(self.now)
        if self.is_time and abs(more) < NOTICED_S:
            return "same"
        return "better" if (more > 0) is self.is_wanted else "worse"


def forecast_of(found: Answer) -> WhatIf:
    """What the process has found."""
    from swell.api.what_if import WhatIf  # a simulator, which a daemon without questions does without

    return msgspec.json.decode(found.what_if, type=WhatIf, strict=False)


def forecast_rows(told: WhatIf) -> list[ForecastRow]:
    return [_row(job) for job in told.jobs]


def _row(job: Forecast) -> ForecastRow:
    deadline_s = job.deadline_s if job.then.deadline_s is None else job.then.deadline_s
    difference, trend = _difference(job)
    return ForecastRow(
        id=job.id,
        name=job.name,
        cls=str(job.job_class),
        deadline_s=deadline_s,
        is_hypothetical=job.is_hypothetical,
        now=EndCell() if job.now is None else _cell(job.now),
        then=_cell(job.then),
        difference=difference,
        trend=trend,
    )


def _cell(fate: JobForecast) -> EndCell:
    if fate.phase is Phase.REJECTED:
        return EndCell(text="refused", standing="refused")
    if fate.finish_s is None:
        return EndCell(text="never ends", standing="missed")
    if fate.phase in (Phase.FAILED, Phase.CANCELLED):
        return EndCell(at_s=fate.finish_s, text=str(fate.phase), standing=str(fate.phase))
    if fate.kept is None:
        return EndCell(at_s=fate.finish_s)
    if fate.kept:
        return EndCell(
            at_s=fate.finish_s, text="promise kept" if fate.is_promised else "kept", standing="kept"
        )
    text = "promise broken" if fate.is_promised else "missed"
    return EndCell(at_s=fate.finish_s, text=text, standing="missed")


def _difference(job: Forecast) -> tuple[str, str]:
    if job.now is None:
        return _verdict(job.then), "new"
    if job.now.finish_s is None or job.then.finish_s is None:
        return (NOTHING, "same") if job.now.phase is job.then.phase else (str(job.then.phase), "later")
    later_s = job.then.finish_s - job.now.finish_s
    if abs(later_s) < NOTICED_S:
        return "same", "same"
    return f"{span(later_s)} {'later' if later_s > 0 else 'sooner'}", "later" if later_s > 0 else "sooner"


def _verdict(fate: JobForecast) -> str:
    if fate.phase is Phase.REJECTED:
        return "refused"
    if fate.is_unpromised:
        return "tried without a promise"
    return "promised" if fate.is_promised else "accepted"


def forecast_totals(told: WhatIf) -> list[TotalRow]:
    """Promises first: a sooner end of one job may be another's broken promise."""
    now = [job.now for job in told.jobs if job.now is not None]
    then = [job.then for job in told.jobs]
    strict = [job for job in told.jobs if job.job_class is JobClass.STRICT]
    return [
        _count("Promises kept", _num_promised(now, True), _num_promised(then, True), is_wanted=True),
        _count("Promises broken", _num_promised(now, False), _num_promised(then, False)),
        _count("Other deadlines missed", _num_missed(now), _num_missed(then)),
        _count(
            "Refused",
            sum(job.now is not None and job.now.phase is Phase.REJECTED for job in strict),
            sum(job.then.phase is Phase.REJECTED for job in strict),
        ),
        TotalRow(name="Last job ends", now=_last_s(now), then=_last_s(then), is_time=True, is_wanted=False),
        TotalRow(name="Devices", now=told.num_devices_now, then=told.num_devices_then),
        TotalRow(name="Policy", now=told.policy_now, then=told.policy_then),
    ]


def _count(name: str, now: int, then: int, is_wanted: bool = False) -> TotalRow:
    return TotalRow(name=name, now=now, then=then, is_wanted=is_wanted)


def _num_promised(fates: Sequence[JobForecast], kept: bool) -> int:
    return sum(fate.is_promised and bool(fate.kept) is kept for fate in fates)


def _num_missed(fates: Sequence[JobForecast]) -> int:
    return sum(not fate.is_promised and fate.kept is False for fate in fates)


def _last_s(fates: Sequence[JobForecast]) -> float | None:
    """None: some never end, or there are none."""
    ends = [fate.finish_s for fate in fates if fate.phase is not Phase.REJECTED]
    if not ends or None in ends:
        return None
    return max(end_s for end_s in ends if end_s is not None)


class ForecastNote(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence about one job; with the earliest deadline that could be promised, if that is known."""

    job_id: str
    text: str
    offer_s: float | None = None


def notes(told: WhatIf) -> list[ForecastNote]:
    """What is refused that was not, and why."""
    found = [note for job in told.jobs if (note := _note(job)) is not None]
    return found + [ForecastNote(job_id=one.id, text=f"is left out: it {one.why}") for one in told.left_out]


def _note(job: Forecast) -> ForecastNote | None:
    now, then = job.now, job.then
    if then.phase is Phase.REJECTED and (now is None or now.phase is not Phase.REJECTED):
        return ForecastNote(job_id=job.id, text=f"refused: {then.reason}", offer_s=then.counter_offer_s)
    if then.is_unpromised and (now is None or not now.is_unpromised):
        return ForecastNote(job_id=job.id, text=f"not promised: {then.reason}", offer_s=then.counter_offer_s)
    if then.refusal and (now is None or now.refusal != then.refusal):
        text = f"its other deadline is refused: {then.refusal}"
        return ForecastNote(job_id=job.id, text=text, offer_s=then.counter_offer_s)
    return None
