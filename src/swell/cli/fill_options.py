"""Options about what a trace lacks: throughput profiles, and the rules by which it is filled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args, get_type_hints

import typer

from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.sim.traces.rules import Rules

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the trace. Default: detected from its content.",
        show_default=False,
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a trace that has malformed lines instead of skipping them.")
]
Profiles = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|NAME",
        help="Throughput profiles: a folder of tables MODEL.csv, or bftrainer, hu, law, "
        "law:EXPONENT. Missing fields are filled from them.",
        show_default=False,
    ),
]
FillSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]
Deadlines = Annotated[
    str, typer.Option(metavar="WHICH", help="Which deadlines to draw at random: missing, all or none.")
]
Tightness = Annotated[
    str,
    typer.Option(
        metavar="LOW:HIGH",
        help="Range of a drawn deadline: submission plus this many times the job's duration.",
    ),
]
BestEffort = Annotated[
    float,
    typer.Option(
        "--best-effort",
        metavar="SHARE",
        help="Share of the jobs without a deadline that stay without one (best_effort).",
    ),
]
Soft = Annotated[float, typer.Option("--soft", metavar="SHARE", help="Share of the deadlines that are soft.")]
Unknown = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        help="Jobs whose model has no profile: refuse the trace, "
        "draw another model, or drop the job: refuse, draw, "
        "drop.",
    ),
]

DrawLosses = Annotated[
    bool,
    typer.Option("--draw-losses", help="Draw a loss curve for each job of which the trace has none."),
]


def rules_of(
    seed: int,
    deadlines: str,
    tightness: str,
    best_effort: float,
    soft: float,
    unknown: str,
    draw_losses: bool = False,
) -> Rules:
    """Raises InvalidInput for an option that cannot be."""
    from swell.sim.traces.rules import Rules

    return Rules(
        seed=seed,
        deadlines=_choice("deadlines", deadlines),  # type: ignore[arg-type]
        tightness=_range(tightness),
        best_effort_share=share("best-effort", best_effort),
        soft_share=share("soft", soft),
        unknown=_choice("unknown", unknown),  # type: ignore[arg-type]
        losses="drawn" if draw_losses else "given",
    )


def share(option: str, value: float, most: float = 1.0) -> float:
    """Raises InvalidInput."""
    if not 0.0 <= value <= most:
        raise InvalidInput(f"--{option} is {value:g}; it must be between 0 and {most:g}")
    return value


def _choice(field: str, word: str) -> str:
    from swell.sim.traces.rules import Rules

    choices = get_args(get_type_hints(Rules)[field])
    if word not in choices:
        raise InvalidInput(f"--{field} is {word!r}; choose one of {', '.join(choices)}")
    return word


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise InvalidInput(f"--tightness is {text!r}; write LOW:HIGH, as 0.5:1.5") from None
