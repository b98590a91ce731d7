"""Commands of tests are forked from a program that has read some variables when it was imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_program import READ_AT_IMPORT
from tests.preloaded_program import PRELOAD, PreloadedProgram

ROOT = Path(__file__).parents[1]
#: Read at import, too: where packages of the user are, which no test has; and what numpy sets for itself.
HARMLESS = {"HOME", "OPENBLAS_MAIN_FREE", "PSUTIL_DEBUG"}
#: Prints each variable that is asked for by its name. `wsgiref` copies all, for servers that we do not have.
SPY = """
import os, sys
class Spy(dict):
    def note(self, name):
        frame = sys._getframe(2)
        while frame.f_code.co_filename.startswith("<frozen") or frame.f_code.co_filename.endswith("os.py"):
            frame = frame.f_back
        if not frame.f_code.co_filename.endswith("wsgiref/handlers.py"):
            print(os.fsdecode(name))
    def __getitem__(self, name):
        self.note(name)
        return super().__getitem__(name)
    def __contains__(self, name):
        self.note(name)
        return super().__contains__(name)
os.environ._data = Spy(os.environ._data)
for name in sys.argv[1:]:
    __import__(name)
"""


def test_what_is_read_at_import_is_known() -> None:
    """A library that reads more would make tests blind for what they set."""
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-P", "-c", SPY, *PRELOAD]
    names = set(subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout.split())
    assert "PROMETHEUS_DISABLE_CREATED_SERIES" in names and "NPY_PROMOTION_STATE" in names
    assert {name for name in names - HARMLESS if not name.startswith(READ_AT_IMPORT)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("is_at_start", [True, False])
def test_a_command_sees_variables_that_are_read_at_import(is_at_start: bool) -> None:
    plain = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    plain.pop("PYTHONWARNINGS", None)
    other = plain | {"PYTHONWARNINGS": "always::nothing.that.IsThere"}  # which the interpreter tells of
    program = PreloadedProgram(other if is_at_start else plain)
    said = "Invalid -W option ignored"
    assert (said in program.run("--version", environ=other, timeout_s=60.0).stderr) is not is_at_start
    done = program.run("--version", environ=plain, timeout_s=60.0)
    assert said not in done.stderr and done.stdout.startswith("swell ")
