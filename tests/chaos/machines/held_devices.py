"""A worker's lock on its devices, which the kernel lets go of when its process has ended and not before."""

import fcntl
import os
from pathlib import Path

#: On each machine; the kernel forgets it with the machine, whose processes are gone then.
FOLDER = Path("/tmp/held-devices")  # noqa: S108
#: Is there if two processes had one device at once.
COMPLAINT = Path("/tmp/held-twice")  # noqa: S108


def hold() -> None:
    """Until this process ends. A trial run may share devices, and without Swell there are none.

    Raises:
        RuntimeError: another worker has one of them.
    """
    if os.environ.get("SWELL_TRIAL") == "1" or "SWELL_JOB_ID" not in os.environ:
        return
    for device in _own():
        FOLDER.mkdir(exist_ok=True)
        file = os.open(FOLDER / device.replace("/", "-"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 100, 0).decode()
            who = f"{os.environ['SWELL_JOB_ID']}/{os.environ['SWELL_WORKER']}"
            with COMPLAINT.open("a") as complaint:
                complaint.write(f"{device}: {who} has been given what {holder} holds\n")
            raise RuntimeError(f"device {device} is held by {holder}") from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.environ['SWELL_JOB_ID']}/{os.environ['SWELL_WORKER']}".encode(), 0)


def _own() -> list[str]:
    """A script that is stopped and started sees those of all ranks on its machine, as under torchrun."""
    seen = os.environ["SWELL_DEVICES"].split(",")
    return [seen[int(os.environ["LOCAL_RANK"])]] if "LOCAL_RANK" in os.environ else seen
