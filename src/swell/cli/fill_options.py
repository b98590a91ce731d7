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
        "--format", metavar="NAME", help="Of the trace. Default: what it looks like.", show_default=False
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a trace with a malformed line, instead of skipping it.")
]
Profiles = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|NAME",
        help="Throughput tables MODEL.csv, or bftrainer, hu, law, law:EXPONENT. Fills what is missing.",
        show_default=False,
    ),
]
FillSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Of everything that is drawn.")]
Deadlines = Annotated[
    str, typer.Option(metavar="WHICH", help="Draw missing ones, draw all, or none: missing, all, none.")
]
Tightness = Annotated[
    str, typer.Option(metavar="LOW:HIGH", help="A drawn deadline is so many durations after the submission.")
]
BestEffort = Annotated[
    float, typer.Option("--best-effort", metavar="SHARE", help="Of jobs without a deadline, that get none.")
]
Soft = Annotated[float, typer.Option("--soft", metavar="SHARE", help="Of deadlines, that are soft.")]
Unknown = Annotated[
    str, typer.Option(metavar="WHAT", help="Models the profiles do not have: refuse, draw, drop.")
]


def rules_of(
    seed: int, deadlines: str, tightness: str, best_effort: float, soft: float, unknown: str
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
    )


def share(option: str, value: float, most: float = 1.0) -> float:
    """Raises InvalidInput."""
    if not 0.0 <= value <= most:
        raise InvalidInput(f"--{option} is {value:g}; it must be within 0 and {most:g}")
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
