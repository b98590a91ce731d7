"""`swell.report`: what a script tells of itself, and who takes it. Imports nothing heavy.

It may report anything: what is kept of it is bounded. JSON has no NaN and no infinity: such values are words.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, SupportsFloat, TypeVar

#: A step is less than this: floats can hold it.
MOST_STEPS = 1 << 53
_Value = TypeVar("_Value")
#: That of the training loss of `run.backward`, which is noted in each step.
LOSS = "loss"
#: That of the gradient noise scale, in samples, of a job whose batch may change.
NOISE_SCALE = "noise_scale"
#: Names of one job.
MOST_METRICS = 200
#: Characters of a name.
MOST_CHARACTERS = 100
Number = float | Literal["nan", "inf", "-inf"]
#: In a line of output that tells a link.
LINK = "swell.link"
MOST_URL = 2000


class Receiver(Protocol):
    def __call__(self, values: dict[str, float], step: int | None) -> None: ...


#: The latest counts: none in a script that runs by itself.
_receivers: list[Receiver] = []
#: Likewise, of `report_progress`.
_counters: list[Callable[[int, int], None]] = []


def report(*, step: int | None = None, **values: SupportsFloat) -> None:
    """Tell Swell what a training script measured: `swell.report(loss=0.31, accuracy=0.9)`.

    Rank 0's word counts: where all workers are to be heard, let them sum up what they have measured before. A
    value may be a number or a tensor with one element, and may be NaN or infinite. A name may be reported in
    each step: the job's listing shows the latest value, and its curve (`swell metrics`) is made of all.
    Outside of a job the call has no effect.

    Args:
        step: after which step it was measured; None: the optimizer's steps are counted. A lower one than
            before is taken for a repetition: later points of the curve go.

    Raises:
        TypeError, ValueError: a value is no number, or there is no such step.
    """
    numbers = {name: number("swell.report", name, value) for name, value in values.items()}
    checked = checked_step("swell.report", step)
    if _receivers:
        _receivers[-1](numbers, checked)


def report_progress(done: int, total: int) -> None:
    """Tell Swell how far a restart job's script is: `report_progress(done=step, total=num_steps)`.

    Call it first before the first step, with what the script's checkpoint holds, and then after each step, or
    now and then. It counts in the place of the optimizer's steps, and needs no optimizer of torch. Rank 0's
    word counts. Outside of a restart job the call has no effect.

    Args:
        done: steps that are finished, over all starts of the script; it never falls within one start.
        total: steps of the whole job: the `--steps` that it was submitted with, if it was.

    Raises:
        TypeError, ValueError: one of both is no such number, or the call comes too late.
    """
    done, total = _checked("report_progress", "done", done), _checked("report_progress", "total", total)
    if done > total:
        raise ValueError(f"report_progress(done={done}, total={total}): no more can be done than there is")
    if _counters:
        _counters[-1](done, total)


def link(name: str, url: str) -> None:
    """Show a link of this job on the page and in `swell show`: `swell.link("W&B", run.url)`.

    A job may have up to ten; one of the same name takes the place of the former. It is a line of the output
    (`{"swell.link": "W&B", "url": "https://..."}`), which a program in any language may print.

    Raises:
        ValueError: the name or the address breaks a rule.
    """
    if why := link_fault(name, url):
        raise ValueError(f"swell.link({name!r:.80}, {url!r:.80}): {why}")
    print(json.dumps({LINK: name, "url": url}), flush=True)


def link_fault(name: str, url: str) -> str:
    """Why there can be no such link; empty: there can."""
    if not (0 < len(name) <= MOST_CHARACTERS and name.isprintable()):
        return f"a name has 1 to {MOST_CHARACTERS} printable characters"
    if not (len(url) <= MOST_URL and url.isprintable() and re.fullmatch(r"https?://[^\s/]\S*", url)):
        return f"write https://... or http://..., without blanks, and at most {MOST_URL} characters"
    return ""


def number(call: str, name: str, value: SupportsFloat) -> float:
    """The value as a float. Raises TypeError, ValueError: it is none; the text names the call."""
    rule = "is not a number or a tensor with one element; leave out what is not known"
    if isinstance(value, str | bytes):
        raise TypeError(f"{call}({name[:80]}={value!r:.80}) {rule}")
    detach = getattr(value, "detach", None)  # a tensor's; torch warns of a float that is made of its graph
    try:
        return float(detach() if callable(detach) else value)
    except OverflowError as error:
        raise ValueError(
            f"{call}({name[:80]}=...): the number is too large; give one up to 1.7e308"
        ) from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"{call}({name[:80]}={value!r:.80}) {rule}") from error


def checked_step(call: str, step: int | None) -> int | None:
    """Raises TypeError, ValueError: it is no number of a step."""
    return None if step is None else _checked(call, "step", step)


def _checked(call: str, name: str, value: int) -> int:
    try:
        whole = operator.index(value)
    except TypeError as error:
        raise TypeError(
            f"{call}({name}={value!r:.80}) is not a whole number; count steps or epochs"
        ) from error
    if not 0 <= whole < MOST_STEPS:
        raise ValueError(f"{call}({name}={value!r:.80}): a step is at least 0 and less than 2**53")
    return whole


def send_reports_to(receiver: Receiver, counter: Callable[[int, int], None] | None = None) -> None:
    """Called by what runs the script. Without a `counter` what `report_progress` says has no effect."""
    _receivers.append(receiver)
    if counter is not None:
        _counters.append(counter)


class MetricNames:
    """Those of one run, in the order in which they came."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._refusal = ""
        self._is_told = False

    def admitted(self, values: Mapping[str, _Value]) -> dict[str, _Value]:
        """The values whose names are kept."""
        kept = {}
        for name, value in values.items():
            is_name = 0 < len(name) <= MOST_CHARACTERS and name.isprintable()
            if name in self._names or (is_name and len(self._names) < MOST_METRICS):
                self._names.add(name)
                kept[name] = value
            else:
                self._refusal = self._refusal or (
                    f"values of a metric named {name[:40]!a} are not kept: a job has up to {MOST_METRICS} "
                    f"names of 1 to {MOST_CHARACTERS} printable characters; report the same ones each time"
                )
        return kept

    def take_refusal(self) -> str:
        """What the job's owner is to be told of names that are not kept; empty: nothing, or it was told."""
        if self._is_told or not self._refusal:
            return ""
        self._is_told = True
        return self._refusal


def spelled(value: float) -> Number:
    """A number, or the word for one that is none."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def value_of(number: Number) -> float:
    return float(number)
