"""Engines by name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swell.executors.engine import Engine, InvalidEngine, LocalEngine, OptionValue, words_of
from swell.executors.ray.engine import RayEngine
from swell.executors.slurm.engine import SlurmEngine
from swell.plugins import Registry, broken_rule

#: With those of installed packages.
ENGINES = Registry(Engine, "swell.engines", (LocalEngine, RayEngine, SlurmEngine))


def make_engine(name: str, options: Mapping[str, OptionValue], listen: str) -> Engine:
    """The engine with its options, by name, by default as far as not given. Raises InvalidEngine."""
    kind = engine_type(name)
    for option, value in options.items():
        if option not in kind.__struct_fields__:
            raise InvalidEngine(f"--engine {name}: it has no option {option!r}; leave that out")
        if rule := broken_rule(kind, option, value):
            raise InvalidEngine(f"{' '.join(words_of(kind, option, value))}: {rule}")
    engine = msgspec.convert(options, kind, strict=False)
    engine.check(listen)
    return engine


def engine_type(name: str) -> type[Engine]:
    """Raises InvalidEngine."""
    if name not in ENGINES:
        raise InvalidEngine(f"--engine {name}: {ENGINES.why_not(name)}")
    return ENGINES[name]
