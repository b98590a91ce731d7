"""What a job was submitted with and no journal holds: values of variables, and requirements.

They are a file of the job's folder that only the platform's account can read. Hosts read it when they open a
run of the job; it goes when the job is pruned.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from swell.wire.untrusted_files import read_regular
from swell.wire.whole_files import write_whole

FILE = "inputs.json"
#: Files with values of variables, which may be secrets, are no code unless git tracks them.
VALUES_SUFFIX = ".env"
#: Of all requirements; and of all values: Linux starts no program with a variable of 128 KiB.
MOST_BYTES, MOST_VALUE_BYTES = 1 << 18, 1 << 16


class JobInputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Values that `JobSpec.secrets` and `JobSpec.uv` only name."""

    variables: dict[str, str] = {}
    requirements: str = ""  #: lines for pip and uv

    def write(self, folder: Path) -> None:
        """Keep them in a job's folder, for its owner only. Raises OSError."""
        if self != NO_INPUTS:
            write_whole(folder / FILE, msgspec.json.encode(self), is_synced=True)


NO_INPUTS = JobInputs()


def read_inputs(folder: Path) -> JobInputs:
    """Return those of a job's folder. Raises ValueError: they are gone; OSError: they cannot be read now."""
    try:
        return msgspec.json.decode(read_regular(folder / FILE, 4 * MOST_BYTES), type=JobInputs)
    except (FileNotFoundError, msgspec.DecodeError) as error:
        raise ValueError(f"what it was submitted with is gone from {folder}; submit it again") from error
