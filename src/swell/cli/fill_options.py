"""Options about what a trace lacks: throughput profiles, and the rules by which it is filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import msgspec
import typer

from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.sim.traces.rules import FillRules

Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of the trace. Default: detected from its content."),
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
    ),
]


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    """Rules by which missing values of a trace are filled in."""

    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0
    deadlines: Annotated[
        str, typer.Option(metavar="WHICH", help="Which deadlines to draw at random: missing, all or none.")
    ] = "missing"
    tightness: Annotated[
        str,
        typer.Option(
            metavar="LOW:HIGH",
            help="Range of a drawn deadline: submission plus this many times the job's duration.",
        ),
    ] = "0.5:1.5"
    best_effort: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Share of the jobs without a deadline that stay without one (best_effort)."
        ),
    ] = 0.0
    soft: Annotated[float, typer.Option(metavar="SHARE", help="Share of the deadlines that are soft.")] = 0.0
    draw_losses: Annotated[
        bool,
        typer.Option("--draw-losses", help="Draw a loss curve for each job of which the trace has none."),
    ] = False

    def rules(self) -> FillRules:
        """Raises InvalidInput for an option that cannot be."""
        from swell.sim.traces.rules import FillRules

        return FillRules(
            seed=self.seed,
            deadlines=_choice("deadlines", self.deadlines),
            tightness=_range(self.tightness),
            best_effort_share=self.best_effort,
            soft_share=self.soft,
            losses="drawn" if self.draw_losses else "given",
        )


@dataclass(frozen=True, kw_only=True)
class LogFillOptions(FillOptions):
    """Those rules, and one for a log whose jobs name models."""

    unknown: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="Jobs whose model has no profile: refuse the trace, "
            "draw another model, or drop the job: refuse, draw, "
            "drop.",
        ),
    ] = "refuse"

    def rules(self) -> FillRules:
        return msgspec.structs.replace(super().rules(), unknown=_choice("unknown", self.unknown))


def _choice(field: str, word: str) -> Any:
    from swell.sim.traces.rules import FillRules

    choices = get_args(get_type_hints(FillRules)[field])
    if word not in choices:
        raise InvalidInput(f"--{field} is {word!r}; choose one of {', '.join(choices)}")
    return word


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise InvalidInput(f"--tightness is {text!r}; write LOW:HIGH, as 0.5:1.5") from None
