"""A profile set by what a user writes for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from swell.sim.profiles.law import DEFAULT_EXPONENT, PowerLaw, hu
from swell.sim.profiles.pollux import PolluxProfiles, is_pollux
from swell.sim.profiles.profile_set import ProfileSet, UnknownProfile
from swell.sim.profiles.saxena import saxena
from swell.sim.profiles.tables import read_tables

BUILT_IN: dict[str, Callable[[], ProfileSet]] = {
    "hu": hu,
    "law": lambda: PowerLaw(DEFAULT_EXPONENT),
    "saxena": saxena,
}
LAW = "law:"


def load(name: str) -> ProfileSet:
    """A built-in set (`hu`, `law`, `law:0.7`, `saxena`), or a folder of tables or of measurements.

    Raises:
        UnknownProfile: it is neither.
        ProfileError: a table of the folder cannot be used.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name.startswith(LAW):
        return PowerLaw(_exponent(name.removeprefix(LAW)))
    if not Path(name).is_dir():
        raise UnknownProfile(
            f"there are no profiles {name!r}; name a folder of MODEL.csv, or one of {', '.join(BUILT_IN)}, "
            f"{LAW}EXPONENT"
        )
    folder = Path(name)
    return PolluxProfiles(folder) if is_pollux(folder) else read_tables(folder)


def _exponent(text: str) -> float:
    try:
        exponent = float(text)
    except ValueError:
        exponent = -1.0
    if not 0.0 <= exponent <= 1.0:
        raise UnknownProfile(f"{LAW}{text} is no law; write an exponent from 0 to 1, as {LAW}0.8")
    return exponent
