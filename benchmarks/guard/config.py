"""`guard.toml`: baseline, anchors and budgets, and the rule that a budget only falls."""

from __future__ import annotations

import tomllib

import msgspec

from benchmarks.guard.figures import FIGURES


class Raised(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A budget that a commit raises, and what its author says for it."""

    figure: str
    to: float
    reason: str
    price: str


class GuardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Commits to compare with, and the most that a figure may be of its anchor's."""

    baseline: str
    anchors: dict[str, str]
    budgets: dict[str, float]
    raised: tuple[Raised, ...] = ()


def parse_config(text: str) -> GuardConfig:
    """Raises ValueError: a key is unknown, a figure too, or a word is missing."""
    config = msgspec.convert(tomllib.loads(text), GuardConfig)
    known = {figure.name for figure in FIGURES if figure.anchor}
    for name in [*config.budgets, *(raised.figure for raised in config.raised)]:
        if name not in known:
            raise ValueError(
                f"guard.toml: {name!r} is no figure that has an anchor; there are {sorted(known)}"
            )
    for raised in config.raised:
        if not (raised.reason.strip() and raised.price.strip()):
            raise ValueError(f"guard.toml: the raised budget of {raised.figure} needs a reason and a price")
    return config


def unexplained(now: GuardConfig, before: GuardConfig) -> list[str]:
    """Budgets that are higher than before, or gone, without an entry `raised` for just that value."""
    explained = {(raised.figure, raised.to) for raised in now.raised}
    return [
        f"the budget of {name} was {budget:g} and is {now.budgets.get(name, 'none')}; "
        "add [[raised]] with figure, to, reason and price to guard.toml"
        for name, budget in before.budgets.items()
        if now.budgets.get(name, float("inf")) > budget and (name, now.budgets.get(name)) not in explained
    ]
