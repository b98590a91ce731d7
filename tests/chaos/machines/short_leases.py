"""`swell` with leases of other lengths.

python -m tests.chaos.machines.short_leases LEASE_S MARGIN_S WORDS ...
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from swell import assemble
from swell.cli.main import main
from swell.executors.leases.lease_times import LeaseTimes

if __name__ == "__main__":
    _, lease_s, margin_s, *words = sys.argv
    times = LeaseTimes(lease_s=float(lease_s), margin_s=float(margin_s))
    made: Any = assemble
    made.LocalExecutor = partial(assemble.LocalExecutor, leases=times)
    sys.argv = ["swell", *words]
    main()
