"""Where a command writes to: looked at before it works for it, and named if it fails after all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from swell.model.errors import InvalidInput


def check_files(files: Mapping[str, Path | None], inputs: Iterable[Path]) -> None:
    """Each can be written, and none takes the place of an input or of another. Raises InvalidInput.

    Args:
        files: by the option that names it; None where it was not given.
        inputs: what the command reads.
    """
    taken = {file.resolve(): "what is read" for file in inputs}
    for option, file in files.items():
        if file is None:
            continue
        _check_file(option, file)
        place = file.resolve()
        if place in taken and not file.is_char_device():
            raise InvalidInput(f"{option}: {file} is {taken[place]}; choose another file")
        taken[place] = f"what {option} writes"


def check_folder(option: str, folder: Path | None) -> None:
    """Make it if need be; what it lacks is made with it. Raises InvalidInput if it cannot be written to."""
    if folder is None:
        return
    with writing(option, folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(f"{option}: folder {folder} cannot be written to; choose another")


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """An OSError within is one line about this option. Raises InvalidInput."""
    try:
        yield
    except FileExistsError as error:
        raise InvalidInput(f"{option}: {path} is a file; name a folder") from error
    except OSError as error:
        raise InvalidInput(f"{option}: cannot write {path}: {error.strerror or error}") from error


def _check_file(option: str, file: Path) -> None:
    if str(file) == "-":
        raise InvalidInput(f"{option} writes a file; name one")
    if file.is_dir():
        raise InvalidInput(f"{option}: {file} is a folder; name a file")
    if not file.parent.is_dir():
        raise InvalidInput(
            f"{option}: there is no folder {file.parent} to write {file.name} to; create it first"
        )
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidInput(f"{option}: {file} cannot be written; choose another")
