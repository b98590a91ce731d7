"""What `swell up` starts the platform with: as said now, else as last time, else by default."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from swell.api.errors import InvalidOption
from swell.store.errors import StateError
from swell.store.folder import LastOptions, StateFolder

DEFAULTS = LastOptions(devices="auto", policy="elasticflow", preload=())


@dataclass(frozen=True, slots=True)
class Choice:
    """The options, and those of them that were not given this time: `--devices cpu:4` each."""

    options: LastOptions
    remembered: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """All of them, for a command line that is to remember nothing."""
        modules = self.options.preload or ("",)
        preload = [word for module in modules for word in ("--preload", module)]
        return ["--devices", self.options.devices, "--policy", self.options.policy, *preload]

    @contextmanager
    def explained(self) -> Iterator[None]:
        """An error about an option is a riddle to whoever did not give it."""
        try:
            yield
        except InvalidOption as error:
            guilty = [said for said in self.remembered if said.split(" ", 1)[1] in str(error)]
            if not guilty:
                raise
            raise InvalidOption(
                f"{error} ({', '.join(guilty)} is from the last `swell up`; say it anew)"
            ) from error


def choose(
    folder: StateFolder, devices: str | None, policy: str | None, preload: Sequence[str] | None
) -> Choice:
    """None: was not given."""
    is_complete = not (devices is None or policy is None or preload is None)
    last = DEFAULTS if is_complete else _last(folder)
    options = LastOptions(
        devices=last.devices if devices is None else devices,
        policy=last.policy if policy is None else policy,
        preload=last.preload if preload is None else tuple(module for module in preload if module),
    )
    remembered = []
    if devices is None and last.devices != DEFAULTS.devices:
        remembered.append(f"--devices {last.devices}")
    if policy is None and last.policy != DEFAULTS.policy:
        remembered.append(f"--policy {last.policy}")
    if preload is None:
        remembered += [f"--preload {module}" for module in last.preload]
    return Choice(options, tuple(remembered))


def _last(folder: StateFolder) -> LastOptions:
    try:
        return folder.read_options() or DEFAULTS
    except StateError as error:
        print(f"swell: {error}; options that are not given are the defaults", file=sys.stderr)
        return DEFAULTS
