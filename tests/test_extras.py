"""What is installed without extras is enough to schedule, and what is not names its extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import swell.cli
from swell.api import installed
from swell.api.installed import is_installed, require
from swell.model.errors import InvalidInput

EXTRAS = (
    "matplotlib",
    "optuna",
    "ray",
    "scipy",
    "sklearn",
    "torch",
)
#: Modules of commands import what they need when they run: this is what `up`, `simulate` and `page` do then.
AT_WORK = (
    "swell.api.daemon", "swell.api.server", "swell.assemble", "swell.executors.local.agent.process",
    "swell.executors.local.devices", "swell.live.platform", "swell.policies.registry",
    "swell.sim.html_report", "swell.sim.report", "swell.sim.simulate",
)  # fmt: skip
PROGRAM = """
import importlib, sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if any(name == extra or name.startswith(extra + ".") for extra in {extras!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Missing())
for module in {modules!r}:
    importlib.import_module(module)
"""


@pytest.mark.slow
def test_commands_and_a_platform_import_no_extra() -> None:
    folder = Path(swell.cli.__file__).parent
    commands = {f"swell.cli.{file.stem}" for file in folder.glob("*.py") if file.stem != "__init__"}
    modules = [*sorted(commands), *AT_WORK]
    program = PROGRAM.format(extras=EXTRAS, modules=modules)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_a_command_names_the_extra_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        installed, "is_installed", lambda module: module != "sklearn" and is_installed(module)
    )
    require(["torch"], "the demo", "demo")
    with pytest.raises(InvalidInput, match=r"the demo needs scikit-learn for .*pip install 'swell\[demo\]'"):
        require(["torch", "sklearn"], "the demo", "demo")
