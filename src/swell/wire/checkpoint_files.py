"""Names of checkpoints, and whether a file or a folder is what its name says; without torch.

A name carries the number of steps, of the job's own batch, and the SHA-256 of the content:
`step-000000000100.DIGEST.pt`. The checkpoint of a worker of several processes is a folder,
`step-000000000100.DIGEST`: the digest is that of its manifest, which has each file's size and SHA-256. Where
the updates were not as many, for the batch has changed, a name carries their number too:
`step-000000000100-000000000070.DIGEST.pt`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Annotated

import msgspec

from swell.wire.untrusted_files import IrregularFile, open_regular, read_regular
from swell.wire.whole_files import sync

#: A manifest is some hundred bytes for each process.
MOST_MANIFEST_BYTES = 1 << 24

_NAME = re.compile(r"step-(\d{12})(?:-(\d{12}))?\.([0-9a-f]{64})(\.pt)?")
#: The file of a folder that tells what else is in it.
MANIFEST = "manifest.json"
#: Size and SHA-256 of each file, by its name.
Manifest = dict[Annotated[str, msgspec.Meta(pattern=r"^[\w.-]*\w$")], tuple[int, str]]


def checkpoint_name(steps: int, updates: int, digest: str, suffix: str = ".pt") -> str:
    more = "" if updates == steps else f"-{updates:012d}"
    return f"step-{steps:012d}{more}.{digest}{suffix}"


def checkpoints_in(folder: Path) -> list[tuple[str, Path]]:
    """(digest, path) of the checkpoints there, newest first; none in a folder that is a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    named = [(match, path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    named.sort(key=lambda pair: _order(pair[0]), reverse=True)
    return [(match[3], path) for match, path in named]


def digest_in(path: Path) -> str | None:
    """The SHA-256 that the name carries; None if it is no name of a checkpoint."""
    match = _NAME.fullmatch(path.name)
    return match[3] if match else None


def steps_in(path: Path) -> int:
    """After how many steps the state of this checkpoint was. Raises ValueError if it is no checkpoint."""
    return order_in(path)[0]


def order_in(path: Path) -> tuple[int, int]:
    """Steps and updates: larger in a newer one. Raises ValueError if it is no checkpoint."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path.name} is no name of a checkpoint; it should be step-000000000100.SHA256.pt")
    return _order(match)


def witness_path(checkpoint: Path, position: int = 0) -> Path:
    """The file beside a checkpoint that tells what the step after it came to, if that was noted.

    Args:
        position: of the process of each worker that noted it.
    """
    own = f".{position}" if position else ""
    return checkpoint.with_name(f"witness-{order_in(checkpoint)[1]:012d}{own}.msgpack")


def witnesses_in(folder: Path) -> list[Path]:
    """All such files."""
    return [*folder.glob("witness-*.msgpack")]


def _order(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2] or match[1])


def open_checkpoint(path: Path) -> BufferedReader:
    """Open a checkpoint to read. Raises OSError; `IrregularFile`: it or its folder is a link, for example."""
    return os.fdopen(open_regular(path, root=path.parent.parent), "rb")


def is_whole(path: Path, digest: str) -> bool:
    """Whether the content of this checkpoint has this SHA-256. Reads all of it. Raises OSError."""
    try:
        if not path.is_dir():
            return _digest_of(path, path.parent.parent) == digest
        files = files_of(path)
        return _digest_of(path / MANIFEST, path.parent.parent) == digest and all(
            _digest_of(path / name, path.parent.parent) == told for name, (_, told) in files.items()
        )
    except (IrregularFile, msgspec.MsgspecError):
        return False


def files_of(path: Path) -> Manifest:
    """What the manifest of a folder tells, which may be damaged. Raises OSError, MsgspecError."""
    content = read_regular(path / MANIFEST, MOST_MANIFEST_BYTES, root=path.parent.parent)
    manifest: Manifest = msgspec.json.decode(content, type=Manifest)
    return manifest


def describe(folder: Path, names: Iterable[str]) -> Manifest:
    """The entries of these files of a folder. Raises OSError."""
    return {name: ((folder / name).stat().st_size, _digest_of(folder / name, folder)) for name in names}


def _digest_of(path: Path, root: Path) -> str:
    with os.fdopen(open_regular(path, root=root), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_checkpoint(path: Path, folder: Path) -> Path:
    """Copy a checkpoint that is whole to another folder, durably. Raises OSError."""
    copy, names = folder / path.name, [""]
    if path.is_dir():
        copy.mkdir(mode=0o700)
        names = [MANIFEST, *files_of(path)]
    for name in names:
        with (
            os.fdopen(open_regular(path / name, root=path.parent.parent), "rb") as content,
            (copy / name).open("xb") as file,
        ):
            shutil.copyfileobj(content, file)
        sync(copy / name)
    sync(copy)
    sync(folder)
    return copy


def num_bytes_of(path: Path) -> int:
    """The size of a checkpoint. Raises OSError."""
    return sum(each.stat().st_size for each in (path.iterdir() if path.is_dir() else [path]))


def remove(path: Path) -> None:
    """Remove a checkpoint, if it is there: at once, or not yet. Raises OSError."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    left = path.with_name(f".draft-{path.name}")
    os.rename(path, left)
    shutil.rmtree(left, ignore_errors=True)
