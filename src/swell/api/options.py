"""What `swell up` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class InvalidOption(ValueError):
    """An option of `swell up` cannot be met; the text names it, the rule and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How to run a platform."""

    state_dir: Path
    devices: str | None = None  #: as given to --devices; None: whatever this machine has
    policy: str = "elasticflow"
    port: int = 0  #: of the control API on 127.0.0.1; 0: any that is free
    preload: tuple[str, ...] = ()  #: modules that workers find already imported
