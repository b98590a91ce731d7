"""What a script's text tells before anything runs."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from swell.api.fields import InvalidField, check_source


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"import swell\nfor x in 3:\nprint(x)\n", "line 3: expected an indented block"),
        (b"import swell\nprint('a\n", "line 2: unterminated string literal"),
        (b"import swell\nx = 1\nreturn x\n", "line 3: 'return' outside function"),
        (b"\0", "null bytes"),
        (b"x = '\xff'\n", "utf-8"),
    ],
)
@pytest.mark.parametrize("is_live", [True, False])
def test_what_is_no_python_is_refused_with_its_line(
    tmp_path: Path, text: bytes, told: str, is_live: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(text)
    with pytest.raises(InvalidField) as found:
        check_source(str(script), is_live)
    assert str(found.value).startswith(f"script: {script}") and told in str(found.value)


@pytest.mark.parametrize(
    "text",
    ["", "import torch, os\n", "from torch import nn\nimport numpy as np\n", "from torch.nn import Linear\n"],
)
def test_a_live_script_that_cannot_call_swell_is_refused(tmp_path: Path, text: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    with pytest.raises(InvalidField, match=r"never calls swell\.train\.elastic.*elasticity restart"):
        check_source(str(script), is_live=True)
    check_source(str(script), is_live=False)


@pytest.mark.parametrize(
    "text",
    [
        "from swell import train\n",
        "import swell.train as t\n",
        "from mine import main\nmain()\n",
        "from . import loop\n",
        "from .loop import go\n",
        "def f():\n    import helpers.loop\n",
        "import runpy\nrunpy.run_path('other.py')\n",
        "exec(open('other.py').read())\n",
        "# -*- coding: latin-1 -*-\nfrom swell import train  # \u00e9\n",
        r"from swell import train; x = '\d'",
    ],
)
def test_what_may_call_swell_is_left_to_its_trial_run(tmp_path: Path, text: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="latin-1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a script's own warnings are its own affair
        check_source(str(script), is_live=True)
