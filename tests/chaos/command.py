"""The command of a fixed job, which takes so many seconds. Argument: how many.

It leaves a process behind, in a session of its own. A second start notes if that, or the first, still lives.
"""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

lock = os.open("lock", os.O_CREAT | os.O_RDWR)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    Path("twice").touch()
subprocess.Popen(["setsid", "sleep", "3600"], pass_fds=[lock])
time.sleep(float(sys.argv[1]))
Path("done").touch()
