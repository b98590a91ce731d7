"""The trace of one job, from what its story tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from swell.live.tracing.span import FinishedSpan, SpanValue, child_id_of, root_id_of, trace_id_of
from swell.model.job import Phase
from swell.model.resize import Resize
from swell.model.view import JobView, Story

JOB, WAITING, TRIAL, LAUNCH, TRAIN, REPAIR = "job", "waiting", "trial run", "launch", "train", "repair"
RESIZE, BATCH, SUSPEND, STOP = "resize", "batch change", "suspend", "stop"
REASON = "swell.reason"
#: Fields that become attributes: of a job's view, of a resize, and of one whose size is given up.
OF_JOB = (
    *("job_class", "tenant", "user", "kind", "phase", "reason", "is_promised", "kept"),
    *("steps", "resizes", "resize_pause_s"),
)
OF_RESIZE = ("before", "after", "expected_cost_s", "expected_gain_s", "cost_s")
OF_SIZE = ("cost_s", "gain_s", "verdict")
#: Codes of stories that do not say why a job waits.
OTHER_NEWS = ("warned", "clock", "deadline_asked", "change_refused", "offer_taken", "distributed")
#: Added to the name of a span that had not ended when the platform stopped.
UNFINISHED = "(unfinished)"


@dataclass(slots=True)
class OpenSpan:
    name: str
    begin_s: float
    attributes: dict[str, SpanValue] = field(default_factory=dict)
    resize_s: float | None = None  #: when the resize was decided that it is of, or that it came from
    reason_s: float = -inf  #: when the latest reason was told
    reason_before: SpanValue = None  #: the latest that was told at an earlier moment

    def note_reason(self, at_s: float, text: str) -> None:
        if at_s > self.reason_s:
            self.reason_before = self.attributes.get(REASON)
        self.reason_s, self.attributes[REASON] = at_s, text

    def forget_reason_of(self, at_s: float) -> None:
        """What was told at the moment at which it ends is why it ends."""
        if self.reason_s >= at_s:
            self.attributes[REASON] = self.reason_before


class JobTrace:
    """Stages follow each other without a gap from the job's submission to its end.

    A change of a gang lies over the stage `train`, because a live gang trains on meanwhile. A story that is
    told again after a restart leads to the same spans.
    """

    def __init__(self, view: JobView) -> None:
        self._view = view
        self._stage = OpenSpan(WAITING, view.submitted_s)
        self._change: OpenSpan | None = None  #: decided and not answered
        self._answered: list[tuple[OpenSpan, float]] = []  #: resizes whose pauses are not reported, and ends

    @property
    def stage(self) -> str:
        return self._stage.name

    def hear(self, view: JobView, stories: Sequence[Story]) -> list[FinishedSpan]:
        """What has ended since the last call. `view`: after these stories."""
        self._view = view
        spans = [span for story in stories for span in self._tell(story)]
        spans += self._resizes_with_pause()
        return spans if view.finished_s is None else [*spans, *self._end(view.finished_s)]

    def unfinished(self, now_s: float) -> list[FinishedSpan]:
        """The open spans as far as they have come, under ids of their own: the next daemon may end them."""
        root = OpenSpan(JOB, self._view.submitted_s, self._told())
        change = [self._change] if self._change is not None else []
        is_open = [*(span for span, _ in self._answered), *change, self._stage, root]
        for span in is_open:
            span.name = f"{span.name} {UNFINISHED}"
        return [self._finished(span, now_s) for span in is_open]

    def _tell(self, story: Story) -> list[FinishedSpan]:
        at_s, text = story.at_s, story.text
        match story.code:
            case "profiling":
                return self._go_to(TRIAL, at_s, text)
            case "profiled":
                return self._go_to(WAITING, at_s, text)
            case "decided":
                return self._decide(at_s, text)
            case "started":
                self._stage.attributes |= self._gang()
                return self._go_to(TRAIN, at_s, text)
            case "resized":
                return self._resized(at_s, text)
            case "batch":
                return self._answer(at_s, name=BATCH)
            case "resize_failed" | "suspend_failed":
                return self._answer(at_s, text)
            case "suspended":
                return [*self._answer(at_s, name=SUSPEND), *self._go_to(WAITING, at_s, text)]
            case "stopped" | "cancelling":
                overtaken = self._answer(at_s, text)
                self._change = OpenSpan(STOP, at_s, {"swell.cause": text})
                return overtaken
            case "workers_lost":
                return [*self._answer(at_s, text), *self._go_to(REPAIR, at_s, text, text)]
            case "trial_lost" | "requeued" | "found":
                error = "" if self._change is not None and self._change.name == STOP else text
                return [*self._answer(at_s, error), *self._go_to(WAITING, at_s, text, error)]
        if self._stage.name == WAITING and story.code not in OTHER_NEWS:
            self._stage.note_reason(at_s, text)
        return []

    def _decide(self, at_s: float, text: str) -> list[FinishedSpan]:
        if self._stage.name == WAITING:
            self._stage.forget_reason_of(at_s)
            return self._go_to(LAUNCH, at_s, text)
        if self._stage.name == REPAIR:
            self._stage.resize_s = at_s
        elif self._change is None:
            self._change = OpenSpan("", at_s, {"swell.cause": text}, at_s)
            self._change.name = self._kind_of(self._change)
        return []

    def _kind_of(self, change: OpenSpan) -> str:
        """Kind of a change, as far as it is known when the change is decided.

        A story that ends the change early does not tell its kind.
        """
        if self._resize(change) is not None:
            return RESIZE
        return SUSPEND if self._view.phase is Phase.STOPPING else BATCH

    def _resized(self, at_s: float, text: str) -> list[FinishedSpan]:
        change, self._change = self._change, None
        resize_s = self._stage.resize_s
        if change is not None:
            change.name, resize_s = RESIZE, change.begin_s
            change.attributes |= {"swell.generation": self._view.generation}
            self._answered.append((change, at_s))
        spans = self._go_to(TRAIN, at_s, text)
        self._stage.resize_s = resize_s
        return spans

    def _answer(self, at_s: float, error: str = "", name: str = "") -> list[FinishedSpan]:
        """The change under way is over, if there is one. `name`: what it was, if the answer tells it."""
        change, self._change = self._change, None
        if change is None:
            return []
        if change.name != STOP:
            change.name = name or change.name
        return [self._finished(change, at_s, "" if change.name == STOP else error)]

    def _go_to(self, name: str, at_s: float, cause: str, error: str = "") -> list[FinishedSpan]:
        stage = self._stage
        self._stage = OpenSpan(name, at_s, {"swell.cause": cause})
        if name == TRAIN:
            self._stage.attributes |= self._gang()
        is_nothing = stage.name == WAITING and at_s <= stage.begin_s
        return [] if is_nothing else [self._finished(stage, at_s, error)]

    def _resizes_with_pause(self) -> list[FinishedSpan]:
        """A pause is reported after the resize. Of a size that is given up nothing more will be."""
        known = [one for one in self._answered if self._is_pause_known(one[0])]
        self._answered = [one for one in self._answered if one not in known]
        return [self._finished(span, end_s) for span, end_s in known]

    def _is_pause_known(self, span: OpenSpan) -> bool:
        resize = self._resize(span)
        return resize is None or resize.cost_s is not None or not resize.is_held

    def _end(self, end_s: float) -> list[FinishedSpan]:
        view = self._view
        error = view.reason if view.phase is Phase.FAILED else ""
        spans = [self._finished(span, answered_s) for span, answered_s in self._answered]
        spans += self._answer(end_s, error)
        spans += self._go_to(JOB, end_s, "", error)
        root = OpenSpan(JOB, view.submitted_s, self._told())
        return [*spans, self._finished(root, end_s, error)]

    def _finished(self, span: OpenSpan, end_s: float, error: str = "") -> FinishedSpan:
        view, is_root, end_s = self._view, span.name == JOB, max(span.begin_s, end_s)
        attributes = {"swell.job.id": view.id, "swell.job.name": view.name, **span.attributes}
        if (resize := self._resize(span)) is not None:
            names = OF_SIZE if span.name.startswith(TRAIN) else OF_RESIZE
            attributes |= {f"swell.resize.{name}": getattr(resize, name) for name in names}
        return FinishedSpan(
            trace_id=trace_id_of(view.id),
            span_id=root_id_of(view.id) if is_root else child_id_of(view.id, span.name, span.begin_s, end_s),
            parent_id=None if is_root else root_id_of(view.id),
            name=span.name,
            begin_s=span.begin_s,
            end_s=end_s,
            attributes=attributes,
            error=error,
            follows=view.continues if is_root else "",
        )

    def _resize(self, span: OpenSpan) -> Resize | None:
        history = self._view.resize_history if span.resize_s is not None else ()
        return next((one for one in history if one.at_s == span.resize_s), None)

    def _gang(self) -> dict[str, SpanValue]:
        return {"swell.workers": self._view.workers, "swell.generation": self._view.generation}

    def _told(self) -> dict[str, SpanValue]:
        return {f"swell.job.{name.removeprefix('job_')}": getattr(self._view, name) for name in OF_JOB}
