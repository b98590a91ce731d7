"""Cannot be imported while the file that `GATE` names is there; says beside it that it waits."""

import os
import time
from pathlib import Path

gate = Path(os.environ["GATE"])
gate.with_name("waits").touch()
while gate.exists():
    time.sleep(0.01)
