"""curve.py, but while the file in its first argument is there, this worker comes to its group, no further."""

import runpy
import sys
import time
from pathlib import Path
from typing import Any

from swell.train.collective import next_group

gate, sys.argv[1:] = Path(sys.argv[1]), sys.argv[2:]
connect = next_group.make_group


def connect_late(*args: Any) -> Any:
    while gate.exists():
        time.sleep(0.01)
    return connect(*args)


next_group.make_group = connect_late
runpy.run_path(str(Path(__file__).with_name("curve.py")), run_name="__main__")
