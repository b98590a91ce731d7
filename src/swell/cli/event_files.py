"""TensorBoard's event files."""

from __future__ import annotations

from pathlib import Path

from swell.cli.job_curves import JobCurves
from swell.model.errors import InvalidInput

#: Tag of the number of workers.
WORKERS = "workers"


def write(curves: JobCurves, folder: Path) -> Path:
    """The job's folder, with each metric's means by step and time, and the number of workers.

    Raises:
        InvalidInput: it has event files already, which TensorBoard would show together with these.
        OSError: it cannot be written.
    """
    from tensorboardX import SummaryWriter

    target = folder / Path(curves.job_id).name
    if any(target.glob("events.out.tfevents.*")):
        raise InvalidInput(f"--tensorboard: {target} has event files already; name another folder")
    writer = SummaryWriter(str(target))
    try:
        for series in curves.series:
            for mean, step, at_s in zip(series.mean, series.last_step, series.at_s, strict=True):
                if mean is not None:
                    writer.add_scalar(series.name, mean, step, walltime=at_s)
        longest = max(curves.series, key=lambda series: len(series.last_step), default=None)
        if longest is not None:
            for workers, step, at_s in zip(longest.num_workers, longest.last_step, longest.at_s, strict=True):
                writer.add_scalar(WORKERS, workers, step, walltime=at_s)
    finally:
        writer.close()
    return target
