"""An optimizer in place of the one that `elastic` got, which `run.step` would never step, is refused.

It takes effect on no gradient, so no comparison finds it. Without this
`tests/scripts/refused/optimizer_replaced.py` goes on with the first one in silence.
"""

from __future__ import annotations

import gc
import sys
from weakref import WeakSet

import torch

from swell.train.collective.gradients import LoopError
from swell.train.state.train_state import TrainState

GIVE_ALL = (
    "give elastic() all optimizers that the loop uses by name, elastic(model, {'first': ..., 'second': ...}, "
    "loader), and say in run.step(optimizer) which is to step"
)


class OptimizerWatch:
    """Sees at each epoch whether the script has let go of an optimizer that `elastic` got."""

    def __init__(self, state: TrainState) -> None:
        self._state = state
        self._former = WeakSet(_optimizers())  # made before `elastic`
        self._num_holders: list[int] = []  # of each optimizer, when an epoch began last

    def look(self) -> None:
        """The script asks for the first batch of an epoch.

        Raises:
            LoopError: it has another optimizer of the model by now, and did not give it to `run.state`.
        """
        before = self._num_holders
        self._num_holders = [sys.getrefcount(each) for each in self._state.optimizers]
        if all(now >= then for now, then in zip(self._num_holders, before, strict=False)):
            return
        gc.collect()  # it may have thrown the other one away
        trained = {id(parameter) for parameter in self._state.model.parameters()}
        known = {id(each) for each in (*self._former, *self._state.objects.held())}
        for each in _optimizers():
            groups = () if id(each) in known else getattr(each, "param_groups", ())
            if any(id(one) in trained for group in groups for one in group["params"]):
                raise LoopError(
                    f"the script has another optimizer ({type(each).__qualname__}) in place of one that "
                    "elastic() got, which run.step() steps; to begin with new moments call its "
                    "state.clear(), to change a rate set param_groups[0]['lr']; to go over to another "
                    f"optimizer make both before elastic() and {GIVE_ALL}"
                )


def _optimizers() -> list[torch.optim.Optimizer]:
    """All of this process."""
    return [each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)]
