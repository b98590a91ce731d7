"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FOLDER",
        help="State folder. Default: $SWELL_STATE, else ~/.local/state/swell.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Id, the beginning of one, or a name: then the newest of that name."),
]
Run = Annotated[
    Path | None,
    typer.Option(
        "--run", metavar="FOLDER", help="Of a simulated run, as `simulate --stories` has written it."
    ),
]
RunPolicy = Annotated[
    str | None,
    typer.Option("--policy", metavar="NAME", help="With --run: under this policy, if there are several."),
]
