"""The best plan of each taker alone where devices have prices: the subproblems of a Lagrangian relaxation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import part, suited
from swell.solvers.horizon.lattice import lattice
from swell.solvers.horizon.problem import LevelTable

#: What is left of a demand beyond this is rounding.
DONE = 1.0 - 1e-12
#: A plan must be better by this to replace one with lower levels: ties must not depend on rounding.
SAME_VALUE = 1e-13
#: In plain Python so many looks take about as long as a row of the loops that `compiled.suited` is about.
LOOKS_A_ROW = 64


class PricingProblems(NamedTuple):
    """The subproblems, and space for their dynamic programs."""

    devices: IntArray  #: (J, L)
    first_gain: FloatArray  #: (J, L)
    gain: FloatArray  #: (J, L)
    num: IntArray  #: (J,) levels
    least: IntArray  #: (J,) lowest level before the demand is done
    most: FloatArray  #: (J,) worth of the demand
    is_alike: BoolArray  #: (J,) the first step does as much as a later one
    can_end: BoolArray  #: (J,) some plan does all of the demand
    weights: FloatArray  #: (T,)
    rest: FloatArray  #: (T + 1,) sum of the weights of a step and those after it
    begins: IntArray  #: see `StateLayers`
    following: IntArray
    done: FloatArray  #: (S,) share of the demand that is done in a state; what it began with not counted
    worth: FloatArray  #: (S,) of the steps to come
    choice: IntArray  #: (S,) level of the next step

    @property
    def num_looks(self) -> int:
        """Upper limit on (state, level) pairs evaluated for one set of prices, if first steps are alike."""
        counts = self.begins[:, -1] - self.begins[:, 0]
        return int((counts[self.num] * self.num).sum())


def pricing(table: LevelTable, weights: FloatArray) -> PricingProblems:
    """The subproblems of a table's takers."""
    states = lattice(table.devices.shape[1], len(weights))
    num_states = len(states.following)
    return PricingProblems(
        devices=table.devices,
        first_gain=table.first_gain,
        gain=table.gain,
        num=table.num,
        least=table.least,
        most=table.most,
        is_alike=(table.first_gain == table.gain).all(axis=1),
        can_end=table.first_gain.max(axis=1) + (len(weights) - 1) * table.gain.max(axis=1) > table.most,
        weights=weights,
        rest=np.append(np.cumsum(weights[::-1])[::-1], 0.0),
        begins=states.begins,
        following=states.following,
        done=np.zeros(num_states),
        worth=np.zeros(num_states),
        choice=np.zeros(num_states, dtype=np.int64),
    )


def choose(of: PricingProblems, prices: FloatArray, level: IntArray) -> float:
    """Write the plan (J, T) of each taker that is worth most after paying `prices` (T,) for each device.

    Returns the sum of what they are worth after paying.

    Complexity: J S L for the S states of a taker's lattice, L times that where the first step is another;
    J T L for takers whose demand no plan ends.
    """
    return float(suited(_choose_all, of.num_looks // LOOKS_A_ROW)(of, prices, level))


def plans_within(
    of: PricingProblems, prices: FloatArray, loss: float, max_plans: int
) -> tuple[IntArray, IntArray] | None:
    """(P,) takers and (P, T) levels: plans worth at most `loss` less at these prices than their taker's best.

    Plans with devices after the demand is done, or with more than it takes to end it, are left out.
    None: there are more than `max_plans`.
    """
    num_steps = len(of.weights)
    row, plan = np.zeros(max_plans, dtype=np.int64), np.zeros((max_plans, num_steps), dtype=np.int64)
    level, state = np.zeros((2, num_steps), dtype=np.int64)
    value = np.zeros(num_steps)
    count = suited(_list_all, of.num_looks // LOOKS_A_ROW)(
        of, prices, loss, _Search(level, state, value), _Found(row, plan)
    )
    return None if count < 0 else (row[:count], plan[:count])


class _Search(NamedTuple):
    """A plan that is being put together: entries up to the present step count."""

    level: IntArray  #: (T,)
    state: IntArray  #: (T,) before each step
    value: FloatArray  #: (T,) of the steps before each one, prices taken off


class _Found(NamedTuple):
    row: IntArray  #: (P,)
    level: IntArray  #: (P, T)


def _choose_all(of: PricingProblems, prices: FloatArray, level: IntArray) -> float:
    total = 0.0
    for row in range(len(of.num)):
        total += _choose(of, prices, row, level[row])
    return total


@part
def _choose(of: PricingProblems, prices: FloatArray, row: int, level: IntArray) -> float:
    """Write the best plan of a taker; returns what it is worth after paying."""
    if _is_too_dear(of, prices, row):
        level[:] = 0
        return 0.0
    if not of.can_end[row]:
        return _choose_apart(of, prices, row, level)
    _sum_gains(of, row)
    if of.is_alike[row]:
        best = _value_states(of, prices, row, 0.0, 0)
        _follow(of, row, 0.0, 0, level)
        return best
    best, first = -np.inf, 0
    for one in range(of.least[row], of.num[row]):
        begun = of.first_gain[row, one]
        value = of.weights[0] * begun - prices[0] * of.devices[row, one]
        value += _value_states(of, prices, row, begun, 1)
        if value > best + SAME_VALUE:
            best, first = value, one
            _follow(of, row, begun, 1, level)
    level[0] = first
    return best


@part
def _is_too_dear(of: PricingProblems, prices: FloatArray, row: int) -> bool:
    """Whether no level is worth its price in any step: then the best plan of a taker is to have nothing.

    For what a plan is worth is at most the sum of its steps: a demand that is done ends before that.
    """
    if of.least[row] > 0 or of.first_gain[row, 0] < 0.0:
        return False
    for step in range(len(prices)):
        for one in range(1, of.num[row]):
            done = of.first_gain[row, one] if step == 0 else of.gain[row, one]
            if of.rest[step] * done > prices[step] * of.devices[row, one]:
                return False
    return True


@part
def _choose_apart(of: PricingProblems, prices: FloatArray, row: int, level: IntArray) -> float:
    """The same of a taker whose demand no plan ends: its steps do not concern each other."""
    total = 0.0
    for step in range(len(prices)):
        best, chosen = -np.inf, 0
        for one in range(of.least[row], of.num[row]):
            done = of.first_gain[row, one] if step == 0 else of.gain[row, one]
            value = of.rest[step] * done - prices[step] * of.devices[row, one]
            if value > best + SAME_VALUE:
                best, chosen = value, one
        level[step] = chosen
        total += best
    return total


@part
def _sum_gains(of: PricingProblems, row: int) -> None:
    """Write what is done in each state of a taker."""
    n = of.num[row]
    of.done[of.begins[n, 0]] = 0.0
    for state in range(of.begins[n, 0], of.begins[n, len(of.weights) - 1]):
        for one in range(n):
            of.done[of.following[state, one]] = of.done[state] + of.gain[row, one]


@part
def _value_states(of: PricingProblems, prices: FloatArray, row: int, begun: float, first: int) -> float:
    """What the steps from `first` on are worth if `begun` is done before; writes it for each state."""
    num_steps, n = len(of.weights), of.num[row]
    for step in range(num_steps - 1, first - 1, -1):
        for state in range(of.begins[n, step - first], of.begins[n, step - first + 1]):
            so_far = begun + of.done[state]
            if so_far >= DONE * of.most[row]:
                of.worth[state], of.choice[state] = of.rest[step] * of.most[row], 0
                continue
            best, chosen = -np.inf, 0
            for one in range(of.least[row], n):
                after = so_far + of.gain[row, one]
                value = of.weights[step] * min(after, of.most[row]) - prices[step] * of.devices[row, one]
                if after >= DONE * of.most[row]:
                    value += of.rest[step + 1] * of.most[row]
                elif step + 1 < num_steps:
                    value += of.worth[of.following[state, one]]
                if value > best + SAME_VALUE:
                    best, chosen = value, one
                if after >= DONE * of.most[row]:  # larger ones cost more
                    break
            of.worth[state], of.choice[state] = best, chosen
    return of.worth[of.begins[n, 0]] if first < num_steps else 0.0


@part
def _follow(of: PricingProblems, row: int, begun: float, first: int, level: IntArray) -> None:
    """Write the levels from step `first` on that the choices lead to."""
    num_steps, state = len(of.weights), of.begins[of.num[row], 0]
    is_done = False
    for step in range(first, num_steps):
        is_done = is_done or begun + of.done[state] >= DONE * of.most[row]
        level[step] = 0 if is_done else of.choice[state]
        if not is_done and step + 1 < num_steps:
            state = of.following[state, of.choice[state]]


def _list_all(of: PricingProblems, prices: FloatArray, loss: float, search: _Search, found: _Found) -> int:
    """Write the plans of `plans_within`; returns how many there are, or -1: there is no space for all."""
    count = 0
    for row in range(len(of.num)):
        least = _choose(of, prices, row, search.level) - loss
        _sum_gains(of, row)
        if of.is_alike[row]:
            _value_states(of, prices, row, 0.0, 0)
            count = _list_from(of, prices, row, 0.0, 0, least, search, found, count)
            continue
        for one in range(of.least[row], of.num[row]):
            begun = of.first_gain[row, one]
            paid = of.weights[0] * begun - prices[0] * of.devices[row, one]
            if count >= 0 and paid + _value_states(of, prices, row, begun, 1) >= least:
                search.level[0] = one
                count = _list_from(of, prices, row, begun, 1, least - paid, search, found, count)
    return count


@part
def _list_from(
    of: PricingProblems,
    prices: FloatArray,
    row: int,
    begun: float,
    first: int,
    least: float,
    search: _Search,
    found: _Found,
    count: int,
) -> int:
    """Depth first, the plans whose steps from `first` on are worth `least` or more; -1: too many."""
    num_steps, n, least_level = len(of.weights), of.num[row], of.least[row]
    if count < 0:
        return count
    if first == num_steps or begun >= DONE * of.most[row]:
        for step in range(first, num_steps):
            search.level[step] = 0
        return _note(row, search, found, count)
    step = first
    search.state[step], search.level[step], search.value[step] = of.begins[n, 0], least_level - 1, 0.0
    while step >= first:
        one, so_far = search.level[step] + 1, begun + of.done[search.state[step]]
        is_over = one == n or (one > least_level and so_far + of.gain[row, one - 1] >= DONE * of.most[row])
        if is_over:
            step -= 1
            continue
        search.level[step] = one
        after = so_far + of.gain[row, one]
        value = (
            search.value[step]
            + of.weights[step] * min(after, of.most[row])
            - prices[step] * of.devices[row, one]
        )
        if after >= DONE * of.most[row] or step + 1 == num_steps:
            for later in range(step + 1, num_steps):
                search.level[later] = 0
            if value + of.rest[step + 1] * of.most[row] * (after >= DONE * of.most[row]) >= least:
                count = _note(row, search, found, count)
            if count < 0:
                return count
            continue
        state = of.following[search.state[step], one]
        if value + of.worth[state] >= least:
            step += 1
            search.state[step], search.level[step], search.value[step] = state, least_level - 1, value
    return count


@part
def _note(row: int, search: _Search, found: _Found, count: int) -> int:
    """Write one more plan; returns how many there are now, or -1 if there is no space for it."""
    if count == len(found.row):
        return -1
    found.row[count] = row
    for step in range(len(search.level)):
        found.level[count, step] = search.level[step]
    return count + 1
