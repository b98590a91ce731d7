"""A second call of `elastic` is found at the first one, where it is certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.train.runtime.later_calls import second_call


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("run = elastic()\nprint()\nrun = elastic()", 3),
        ("def phase():\n  with open('/dev/null'):\n    elastic()\nphase()\nphase()", 5),
        ("def a():\n  elastic()\ndef b():\n  elastic()\na()\nb()", 6),
        ("def main():\n  elastic()\n  elastic()\nif __name__ == '__main__':\n  main()", 5),
        ("elastic()", None),
        ("if True:\n  elastic()\nelse:\n  elastic()", None),
        ("elastic()\nif len(__name__) > 99:\n  elastic()", None),
        ("def main():\n  elastic()\n  return\n  elastic()\nmain()", None),
        ("made = []\ndef a():\n  if not made:\n    made.append(elastic())\na()\na()", None),
    ],
)
def test_a_second_call_is_found_where_it_is_certain(tmp_path: Path, text: str, line: int | None) -> None:
    (script := tmp_path / "train.py").write_text(text)
    assert second_call(str(script)) == (f"{script}:{line}" if line else "")
