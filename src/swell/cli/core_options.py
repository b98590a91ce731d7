"""The options about nodes whose jobs share their cores, and about what jobs tell of their learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.sim.shared_cores import CoreDivision

Cores = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        help="Cores of each node of --cluster, which the jobs on it share. Default: each device has its own.",
        show_default=False,
    ),
]
CpuSharesOption = Annotated[
    str,
    typer.Option(
        "--cpu-shares",
        metavar="MODE",
        help="What a job's CPU share means: weight (others get what a job does not use) or quota (it gets no "
        "more than its share of all cores).",
    ),
]
Interference = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Each halving of a job's part of the cores in use of a node also makes its steps longer "
        "by this share.",
    ),
]
ReportEvery = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Time between two reports of a job. Default: 1s where jobs tell their losses; 5m where the "
        "speed of jobs differs from their profiles; else never.",
        show_default=False,
    ),
]


def core_sharing(cpu_shares: str, interference: float) -> CoreDivision:
    """Raises InvalidInput for a mode that there is not."""
    from swell.model.share_mode import ShareMode
    from swell.sim.contention import RULES
    from swell.sim.shared_cores import CoreDivision

    if cpu_shares not in [*RULES]:
        raise InvalidInput(f"--cpu-shares is {cpu_shares!r}; choose one of {', '.join(RULES)}")
    return CoreDivision(cpu_shares=ShareMode(cpu_shares), interference_share=interference)
