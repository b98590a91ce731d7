"""`swell.report` outside of a job: a script that calls it runs by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

import swell

#: None of these is imported by a script that reports.
HEAVY = ("torch", "numpy", "msgspec", "httpx", "swell.train", "swell.api")

ALONE = f"""
import sys
import swell
swell.report(loss=0.3, accuracy=float("nan"))
print([name for name in {HEAVY} if name in sys.modules])
"""


def test_a_script_that_reports_runs_alone_and_imports_nothing_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_no_number_is_an_error_alone_as_in_a_job() -> None:
    with pytest.raises(TypeError, match=r"swell\.report\(loss=\[0\.3\]\) is not a number"):
        swell.report(loss=[0.3])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"accuracy=None.*leave out what is not known"):
        swell.report(loss=0.3, accuracy=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loss='low'"):
        swell.report(loss="low")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"loss=.*too large"):
        swell.report(loss=10**400)
