"""The code of a job as it was when the job was submitted, and where a state folder keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec


class CodeFile(msgspec.Struct, frozen=True, array_like=True):
    """The content of one file."""

    digest: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]  #: SHA-256, a part of a file's name
    num_bytes: int
    is_executable: bool = False


class CodeTree(msgspec.Struct, frozen=True, kw_only=True):
    """Files and symbolic links by absolute path, none of them through a link: a manifest of a snapshot."""

    roots: tuple[str, ...]  #: the folders that were looked through
    files: dict[str, CodeFile]
    links: dict[str, str]  #: targets, relative to the link; all lie below the roots
    sources_digest: str  #: of what decides how the job behaves: equal code at another path has an equal one

    def children(self) -> dict[str, set[str]]:
        """Names in each folder that holds something of the snapshot, up to the root of the file system."""
        found: dict[str, set[str]] = {root: set() for root in self.roots}
        for text in (*self.files, *self.links, *self.roots):
            path = Path(text)
            while path != path.parent:
                names = found.setdefault(str(path.parent), set())
                if path.name in names:
                    break
                names.add(path.name)
                path = path.parent
        return found


def is_within(path: str, root: str) -> bool:
    """Whether an absolute path is this root, or lies below it."""
    return f"{path}/".startswith(f"{root.rstrip('/')}/")


decode_tree = msgspec.json.Decoder(CodeTree).decode


def tree_path(state_dir: Path, digest: str) -> Path:
    """The manifest with this digest."""
    return state_dir / "code" / "trees" / f"{digest}.json"


def object_path(state_dir: Path, digest: str) -> Path:
    """The content with this digest."""
    return state_dir / "code" / "objects" / digest[:2] / digest


def job_tree_path(job_dir: Path) -> Path:
    """The manifest of a job's code: a hard link to that of the store, which is kept as long as it has one."""
    return job_dir / "code.json"
