"""A new dimension of a decision touches few files: here a made-up one, the precision of a step.

The product is copied, a patch of a few files adds the dimension, and the copy is tried: a policy decides it,
the head launches and changes gangs with it, a simulation runs them, hosts keep it, workers are told of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import swell

MOST_FILES = 8
SCRIPT = Path(__file__).with_name("uses_precision.py")
#: File -> (text that is there once, text in its place).
PATCH = {
    "model/target.py": [
        (
            "    def told(self",
            "    precision: str | None = None  #: None: what the script has\n\n    def told(self",
        ),
        ("== other.global_batch", "== other.global_batch and self.precision == other.precision"),
    ],
    "model/plan.py": [
        (
            "    is_sated: bool = False",
            "    precision: tuple[str | None, ...] | None = None  #: (J,)\n    is_sated: bool = False",
        ),
    ],
    "core/planner.py": [
        (
            "    if not configured and not options.has_configured and share is None:",
            "    precision = allocation.precision\n"
            "    if not (configured or options.has_configured or precision) and share is None:",
        ),
        (
            "    now = {row: configured.get(",
            "    if precision is not None:\n"
            "        chosen = {\n"
            "            row: msgspec.structs.replace(one, precision=precision[row])\n"
            "            for row, one in chosen.items()\n"
            "        }\n"
            "    now = {row: configured.get(",
        ),
    ],
    "wire/messages.py": [
        (
            "    max_local_batch: int | None = None  #: as in Welcome",
            "    precision: str | None = None\n    max_local_batch: int | None = None  #: as in Welcome",
        ),
    ],
    "executors/gang/regrouping.py": [
        (
            "            global_batch=live.gang.formation.configuration.global_batch,",
            "            global_batch=live.gang.formation.configuration.global_batch,\n"
            "            precision=live.gang.formation.configuration.precision,",
        ),
    ],
    "train/runtime/managed_run.py": [
        (
            "        self.edition = regroup.generation\n",
            "        self.edition = regroup.generation\n"
            '        os.environ["MADE_UP_PRECISION"] = regroup.precision or "own"\n',
        ),
        ("import math\n", "import math\nimport os\n"),
    ],
}


@pytest.mark.slow
def test_a_made_up_dimension_touches_at_most_eight_files(tmp_path: Path) -> None:
    assert len(PATCH) <= MOST_FILES
    product = tmp_path / "src" / "swell"
    shutil.copytree(Path(swell.__file__).parent, product, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in PATCH.items():
        text = (product / name).read_text()
        for there, then in changes:
            assert text.count(there) == 1, f"{name} has {text.count(there)} times: {there}"
            text = text.replace(there, then)
        (product / name).write_text(text)
    tests = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(product.parent), str(tests)])}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["head", "simulation", "record", "workers"]
