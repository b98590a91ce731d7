"""curve.py, but while the file in its first argument is there, this worker waits where the second says.

`connect`: it has come to its group, and does not connect. `card`: it has entered its group, and is silent.
"""

import runpy
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from swell.train.collective import next_group
from swell.train.collective.next_group import NextGroup
from swell.train.collective.process_groups import make_group

gate, moment, sys.argv[1:] = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
swap_cards = NextGroup.swap_cards


def wait() -> None:
    while gate.exists():
        time.sleep(0.01)


def connect(*args: Any) -> Any:
    wait()
    return make_group(*args)


def tell(group: NextGroup, card: bytes) -> list[bytes]:
    wait()
    return swap_cards(group, card)


late = {"connect": (next_group, "make_group", connect), "card": (NextGroup, "swap_cards", tell)}
with patch.object(*late[moment]):
    runpy.run_path(str(Path(__file__).with_name("curve.py")), run_name="__main__")
