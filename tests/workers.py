"""Which worker of `make test` runs which file of tests, and which tests `make test-quick` has.

Tests of processes wait for a third of their time, but where more of them run at once than there are cores,
jobs break promises. So a worker beside takes no such test: it computes, with less weight, while others wait.

`make test-quick` has the tests of computing folders, few examples of each law, and not the files in `LONG`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

#: With `-n 3`, the last one.
BESIDE = "gw2"
LESS_WEIGHT = 5  #: of `nice`

#: Folders of tests that start no process, or hardly any, and keep to no time.
COMPUTING = tuple(
    f"tests/{folder}/"
    for folder in (
        "api", "core", "live", "model", "placement", "policies", "repro", "sim", "solvers",
        "store", "throughput", "wire",
    )
)  # fmt: skip


#: Files of these folders whose tests start programs, or simulate for long.
LONG = (
    "tests/api/test_doctor.py",
    "tests/api/test_fuzz.py",
    "tests/api/test_roles.py",
    "tests/core/test_borrowed.py",
    "tests/core/test_deadline_changes.py",
    "tests/core/test_hysteresis.py",
    "tests/core/test_liveness.py",
    "tests/policies/test_bftrainer.py",
    "tests/policies/test_flowcon_fit.py",
    "tests/repro/test_bftrainer.py",
    "tests/repro/test_findings_store.py",
    "tests/sim/test_segments_add_up.py",
    "tests/sim/test_bound.py",
    "tests/sim/test_hu_runs.py",
    "tests/sim/profiles/test_pollux.py",
)


def is_quick(path: str) -> bool:
    """Whether `make test-quick` has this file, or files in this folder: a path from the repository's root."""
    if path.endswith(".py"):
        return path.startswith(COMPUTING) and path not in LONG
    return f"{path}/".startswith(COMPUTING) or any(folder.startswith(f"{path}/") for folder in COMPUTING)


def is_computing(nodeid: str) -> bool:
    return nodeid.startswith(COMPUTING)


def give_way() -> None:
    """If this is the worker beside."""
    if os.environ.get("PYTEST_XDIST_WORKER") == BESIDE:
        os.nice(LESS_WEIGHT)


class ProcessesFirst(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Takes files in their order, where computing is last. The worker beside begins at the end.

    Its first file it takes whatever that is: with nothing to do xdist would not let it end.
    """

    def _reschedule(self, node: WorkerController) -> None:
        if self._is_beside(node) and self.workqueue and not is_computing(next(reversed(self.workqueue))):
            node.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._is_beside(node):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _is_beside(self, node: WorkerController) -> bool:
        return bool(node.gateway.id == BESIDE)
