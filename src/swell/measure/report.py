"""What a self-test has found, what is normal, and the verdict."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

#: Units: seconds, gigabytes a second, and the largest difference of two weights, relative to the largest one.
SECONDS, GB_PER_S, APART = "s", "GB/s", "apart"


class Check(NamedTuple):
    """Something that is measured, and what is normal: at most so much, or of links at least."""

    what: str
    on_cpus: float
    on_gpus: float
    unit: str = SECONDS
    is_share: bool = False  #: of what plain PyTorch takes


#: Some times of the longest in docs/explanation/what-a-resize-costs.md, which a busy machine may take.
TRIAL = Check("trial run before the first step", 120.0, 120.0)
START = Check("start of {}", 10.0, 10.0)
GROWTH = Check("growth to {}: time lost", 1.0, 4.0)
READY = Check("growth to {}: until all train", 15.0, 15.0)
KILL = Check("kill -9 of one of {}: until training goes on", 2.0, 3.0)
SAVE = Check("save behind training: time lost", 0.25, 0.5)
SUSPENSION = Check("suspension of {}: until saved and gone", 5.0, 5.0)
RESTART = Check("start of {} from a checkpoint", 10.0, 10.0)
SHRINK = Check("shrink to {}: time lost", 0.5, 1.0)
#: The same page has 1.01 on a quiet machine, where both take turns; here they have different minutes.
STEP = Check("step of {}", 1.3, 1.15, is_share=True)
#: A fifth of what gloo and NCCL move through the sockets of one machine.
LINK = Check("sum of {} MB among {}", 0.05, 0.2, GB_PER_S)
#: Rounding of float64: docs/explanation/what-stays-the-same.md.
EQUAL = Check("off plain PyTorch's weights: {}", 1e-9, 1e-9, APART)


class CheckVerdict(StrEnum):
    """What is said of a row."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"  #: it is not what plain PyTorch computes
    FAILED = "failed"  #: it was not to be measured


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was measured. It holds no text of this machine, so that it can be passed on."""

    what: str
    verdict: CheckVerdict
    unit: str = SECONDS
    measured: float | None = None
    believed: float | None = None  #: by Swell, before it had seen it
    normal: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows."""
        sign = ">=" if self.unit == GB_PER_S else "<="
        normal = "-" if self.normal is None else f"{sign} {_shown(self.normal, self.unit)}"
        measured, believed = (_shown(value, self.unit) for value in (self.measured, self.believed))
        return self.what, measured, believed, normal, self.verdict.value


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A self-test, without names of hosts and users, and without paths."""

    swell: str
    torch: str
    python: str
    kind: str  #: of the devices
    num_devices: int
    num_cores: int
    rows: tuple[Row, ...]

    @property
    def is_good(self) -> bool:
        """Whether something was measured, and all of it is as it should be."""
        return bool(self.rows) and all(row.verdict is CheckVerdict.OK for row in self.rows)

    @property
    def verdict(self) -> str:
        """Return one line for people."""
        devices = f"{self.num_devices} x {self.kind}"
        if self.is_good:
            return f"OK: {len(self.rows)} checks on {devices} are normal, and results equal plain PyTorch's"
        bad = [f"{row.what}: {row.verdict}" for row in self.rows if row.verdict is not CheckVerdict.OK]
        return f"NOT OK: {len(bad)} of {len(self.rows)} checks on {devices}: {'; '.join(bad)}"


def row_of(
    check: Check,
    measured: float,
    *about: object,
    is_gpu: bool,
    believed: float | None = None,
    plain: float | None = None,
) -> Row:
    """Judge a check.

    Args:
        about: what its text speaks of.
        believed: what Swell expects.
        plain: what plain PyTorch takes; None: it was not measured.
    """
    normal: float | None = check.on_gpus if is_gpu else check.on_cpus
    if check.is_share:
        normal = None if plain is None else plain * (normal or 0.0)
    is_least = check.unit == GB_PER_S
    is_ok = normal is None or (measured >= normal if is_least else measured <= normal)
    bad = CheckVerdict.WRONG if check.unit == APART else CheckVerdict.SLOW
    return Row(
        what=check.what.format(*about),
        verdict=CheckVerdict.OK if is_ok else bad,
        unit=check.unit,
        measured=measured,
        believed=believed,
        normal=normal,
    )


def failed(what: str) -> Row:
    """Return the row of a part that was not to be measured."""
    return Row(what=what, verdict=CheckVerdict.FAILED)


def workers(number: int) -> str:
    return f"{number} worker" if number == 1 else f"{number} workers"


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == APART:
        return f"{value:.0e}"
    if unit == GB_PER_S:
        return f"{value:.2f} GB/s"
    return f"{value:.3f} s" if value >= 0.0095 else f"{1e3 * value:.3f} ms"
