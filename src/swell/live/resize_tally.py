"""What resizes have cost and brought since the daemon's start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from swell.live.histogram import Histogram
from swell.live.turns import Turn
from swell.model.resize import Resize, Verdict
from swell.model.view import JobView

#: Seconds; a live resize takes tenths of one, a restart of a large job minutes.
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class ResizeTally:
    """Listens to turns; not thread-safe. A resize counts once its size is given up: all is known then."""

    def __init__(self) -> None:
        self.verdicts: Counter[Verdict] = Counter()
        self.pause_s = Histogram(PAUSES_S)
        self.saved_s = 0.0  #: by growths that have paid, pauses taken off
        self.lost_s = 0.0  #: by growths that have not
        self._counted: dict[str, frozenset[float]] = {}  #: open job -> when resizes were decided that count

    def begin(self, views: Iterable[JobView]) -> None:
        """What these, which are open, had come through by now counts no more."""
        self._counted = {view.id: frozenset(one.at_s for one in _over(view)) for view in views}

    def hear(self, turn: Turn) -> None:
        for view in (*turn.news.changed, *turn.news.ended):
            if view.resize_history:
                self._note(view)
        for view in turn.news.ended:
            self._counted.pop(view.id, None)

    def _note(self, view: JobView) -> None:
        over, counted = _over(view), self._counted.get(view.id, frozenset())
        for resize in over:
            if resize.at_s not in counted:
                self._add(resize)
        self._counted[view.id] = frozenset(resize.at_s for resize in over)

    def _add(self, resize: Resize) -> None:
        self.verdicts[resize.verdict] += 1
        if resize.cost_s is not None:
            self.pause_s.add(resize.cost_s)
        if resize.verdict is Verdict.PAID:
            self.saved_s += resize.gain_s or 0.0
        elif resize.verdict is Verdict.UNPAID:
            self.lost_s -= resize.gain_s or 0.0


def _over(view: JobView) -> list[Resize]:
    return [one for one in view.resize_history if not one.is_held and one.verdict is not Verdict.UNDER_WAY]
