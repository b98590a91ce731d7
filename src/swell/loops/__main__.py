"""`python -m swell.loops` builds the library of compiled loops beside the package."""

from __future__ import annotations

import sys
import time

from swell.loops.calls import calls_of_all_loops


def main() -> None:
    """Build it, and say what was built and what it took."""
    try:
        from swell.loops.entry import CannotBuild
        from swell.loops.library import LIBRARY, build
    except ImportError as error:
        sys.exit(f"building the loops needs numba ({error}); pip install 'swell[loops]'")
    calls = calls_of_all_loops()
    try:
        build(calls)
    except CannotBuild as error:
        sys.exit(f"swell.loops: {error}")
    print(f"built {len(calls)} loops in {time.process_time():.0f} s of CPU time: {LIBRARY}")


if __name__ == "__main__":
    main()
