"""A second call of `elastic` is found at the first one, where it is certain."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from swell.train.link.code_paths import user_frames
from swell.train.runtime.later_calls import later_call

METHOD = "class T:\n  def fit(self):\n    elastic()\nt = T()\nt.fit()\nt.fit()"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("run = elastic()\nprint()\nrun = elastic()", 3),
        ("def phase():\n  with open('/dev/null'):\n    elastic()\nphase()\nphase()", 5),
        ("def a():\n  elastic()\ndef b():\n  elastic()\na()\nb()", 6),
        (METHOD, 6),
        ("elastic()", None),
        ("if True:\n  elastic()\nelse:\n  elastic()", None),
        ("elastic()\nif len(__name__) > 99:\n  elastic()", None),
        ("def main():\n  elastic()\n  return\n  elastic()\nmain()", None),
        ("made = []\ndef a():\n  if not made:\n    made.append(elastic())\na()\na()", None),
    ],
)
def test_a_second_call_is_found_where_it_is_certain(tmp_path: Path, text: str, line: int | None) -> None:
    (script := tmp_path / "train.py").write_text(text)
    found: list[str] = []

    def elastic() -> None:
        found.append(later_call(user_frames(sys._getframe(1))))

    runpy.run_path(str(script), {"elastic": elastic})
    assert found[0] == (f"{script}:{line}" if line else "")
