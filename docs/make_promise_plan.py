"""Draws docs/images/promise-plan.png: the plans of three promised jobs on eight devices.

The plans are made by the scheduler's own solver. Run it from the repository's root:
`python docs/make_promise_plan.py`.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from swell.solvers.capacity.plans import LATE, MARGIN, Plans, Takers
from swell.solvers.filling import FreeProfile, no_plans

PICTURE = Path(__file__).parent / "images" / "promise-plan.png"
NUM_DEVICES = 8
NAMES = ("a", "b", "c")
UNTIL_S = (240.0, 420.0, 600.0)
STEPS = (640.0, 800.0, 700.0)
HELD = (3, 1, 0)  #: levels: a trains on four devices, b on one, and c is new
COLOURS = ("#4c78a8", "#f58518", "#54a24b")


def takers() -> Takers:
    """Three jobs on 1, 2, 4 or 8 devices: a start takes 40 s, a resize 20 s."""
    shape = (len(NAMES), 4)
    return Takers(
        devices=np.tile([1, 2, 4, 8], (shape[0], 1)),
        rates=np.tile([1.0, 1.9, 3.5, 6.2], (shape[0], 1)),
        start_s=np.full(shape, 40.0),
        resize_s=np.full(shape, 20.0),
        num_levels=np.full(shape[0], 4),
        held=np.array(HELD),
        idle_s=np.zeros(shape[0]),
        is_bound=np.zeros(shape[0], dtype=bool),
        work=np.stack([np.array(STEPS) * 1.1, np.array(STEPS)], axis=1),
        until_s=np.array(UNTIL_S),
    )


def stretches(jobs: Takers, plans: Plans, row: int) -> list[tuple[float, float, int, float]]:
    """From when until when a job has how many devices, and how long it pauses first."""
    found, before = [], int(jobs.held[row])
    for segment in range(plans.num[row]):
        is_last = segment + 1 == plans.num[row]
        start_s, level = float(plans.starts_s[row, segment]), int(plans.levels[row, segment])
        end_s = float(plans.end_s[row] if is_last else plans.starts_s[row, segment + 1])
        if level > 0:
            costs_s = jobs.start_s if before == 0 else jobs.resize_s
            pause_s = 0.0 if level == before else float(costs_s[row, level - 1])
            found.append((start_s, end_s, int(jobs.devices[row, level - 1]), pause_s))
        before = level
    return found


def draw(axes: Axes, jobs: Takers, plans: Plans, row: int) -> None:
    """The plan of one job."""
    for start_s, end_s, num, pause_s in stretches(jobs, plans, row):
        colour = COLOURS[row]
        axes.add_patch(Rectangle((start_s, 0), end_s - start_s, num, facecolor=colour, edgecolor="none"))
        axes.add_patch(
            Rectangle((start_s, 0), pause_s, num, facecolor="white", edgecolor=colour, hatch="////")
        )
        axes.text((start_s + pause_s + end_s) / 2, num + 0.4, f"on {num}", color=colour, ha="center")
    axes.axvline(UNTIL_S[row], color="black", linestyle="--", linewidth=1.5)
    axes.text(UNTIL_S[row] + 4, NUM_DEVICES - 1.5, "deadline")
    axes.set(ylim=(0, NUM_DEVICES), ylabel=f"job {NAMES[row]}\ndevices", yticks=range(0, NUM_DEVICES + 1, 2))
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Plan, and draw."""
    jobs, plans = takers(), no_plans(len(NAMES))
    profile = FreeProfile(NUM_DEVICES)
    profile.fill(jobs, plans, np.arange(len(NAMES)), LATE)
    if not (plans.grade == MARGIN).all():
        raise SystemExit("these jobs cannot all be promised their deadlines")
    figure, panels = plt.subplots(len(NAMES), sharex=True, figsize=(9, 5), layout="constrained")
    for row, axes in enumerate(panels):
        draw(axes, jobs, plans, row)
    panels[-1].set(xlim=(0, max(UNTIL_S) + 60), xlabel="seconds from now")
    hatched = Patch(facecolor="white", edgecolor="grey", hatch="////")
    figure.legend([hatched], ["a start or a resize, as long as it takes at most"], loc="outside upper right")
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
