"""What starts and changes of a gang had to cost, by the rule that the run was simulated with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from swell.sim.audit.differences import TIME_S, is_near
from swell.sim.audit.recorded import RecordedJob
from swell.sim.segments import Segment, gangs

Tell = Callable[[str], None]
#: ElasticFlow's amounts: from so many devices on, and below.
LARGE_CLUSTER, LARGE_S, SMALL_S = 256, 7.0, 2.0


@dataclass(frozen=True, slots=True)
class Charge:
    """Seconds that a gang's start or change costs, with a surcharge for a set of devices new to the job."""

    any_s: float
    doubling_s: float = 0.0  #: of new devices, for each doubling of 1, and once for 1

    def of(self, devices: frozenset[str], known: set[frozenset[str]]) -> float:
        new_s = 0.0 if devices in known else self.doubling_s * (math.log2(max(len(devices), 1)) + 1.0)
        return self.any_s + new_s


def charge_of(figures: Mapping[str, Any]) -> Charge | None:
    """None where changes fail, or cost what segments do not tell."""
    truth, num_devices = figures["truth"], figures["cluster"]["devices"]
    has_losses = any(truth["fault_rates"].values()) or truth["node_mtbf_s"] is not None
    if has_losses or truth["pool"] is not None:
        return None
    text = truth["resize_cost"]
    if text == "changed":
        return Charge(LARGE_S if num_devices >= LARGE_CLUSTER else SMALL_S, 2.0)
    try:
        return Charge(0.0 if text == "none" else float(text))
    except ValueError:
        return None


def audit_charges(job: RecordedJob, charge: Charge, tell: Tell) -> None:
    known: set[frozenset[str]] = set()
    for gang in gangs(job.segments):
        formed = [segment for segment in gang if segment.trains]
        if not formed:
            continue
        first = formed[0]
        due_s = charge.of(frozenset(first.devices), known)
        if not is_near(first.from_s - gang[0].from_s, due_s, TIME_S):
            took_s = first.from_s - gang[0].from_s
            tell(f"started in {took_s:.3f} s at {gang[0].from_s:.3f} s, and {due_s:.3f} s is due")
        known.add(frozenset(first.devices))
        for one, other in pairwise(_Change.chain(formed, charge, known)):
            other.audit(one, tell)


@dataclass(frozen=True, slots=True)
class _Change:
    """A segment that trains, and what had to be paid at its beginning."""

    segment: Segment
    due_s: float  #: 0: on the same devices as before

    @classmethod
    def chain(cls, formed: list[Segment], charge: Charge, known: set[frozenset[str]]) -> list[_Change]:
        found = [cls(formed[0], 0.0)]
        for before, segment in pairwise(formed):
            devices = frozenset(segment.devices)
            is_same = devices == frozenset(before.devices)
            due_s = 0.0 if is_same else charge.of(devices, known)
            if is_near(before.from_s, segment.from_s, 0.0):  # of changes at one instant the dearer
                due_s = max(found[-1].due_s, due_s)
            known.add(devices)
            found.append(cls(segment, due_s))
        return found

    def audit(self, before: _Change, tell: Tell) -> None:
        """Check when the pause of this change ends.

        It begins when an earlier pause has ended. Of changes at one instant only the costliest is charged.
        """
        segment, paid_s = self.segment, 0.0
        if is_near(before.segment.from_s, segment.from_s, 0.0):
            paid_s = before.due_s
        from_s = max(segment.from_s, before.segment.trains_from_s)
        expected_s = from_s + self.due_s - paid_s
        if not is_near(expected_s, segment.trains_from_s, TIME_S):
            tell(
                f"pauses at {segment.from_s:.3f} s until {segment.trains_from_s:.3f} s, and until "
                f"{expected_s:.3f} s is due"
            )
