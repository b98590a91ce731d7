"""What a host cannot do of what its platform was told: a job that needs it fails there, and only there."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from swell.executors.local.containers.engine import ContainerChoice, EngineDown, find_engine


def there_of(preload: Iterable[str]) -> tuple[str, ...]:
    """The modules of which the package is installed here; nothing is imported."""
    return tuple(name for name in preload if find_spec(name.partition(".")[0]) is not None)


def lacks_of(missing: Iterable[str], containers: ContainerChoice) -> tuple[str, ...]:
    """Sentences for people. May wait for a container engine.

    Args:
        missing: modules that are to be preloaded and are not installed.
        containers: `auto` is what there is, which may be nothing.
    """
    lacks = [f"lacks module {name} (`--preload`): install it there, or leave it out" for name in missing]
    if containers in (ContainerChoice.DOCKER, ContainerChoice.PODMAN):
        try:
            find_engine(containers)
        except EngineDown as error:
            lacks.append(f"runs no containers (`--containers {containers}`): {error}")
    return tuple(lacks)
