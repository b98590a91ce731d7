"""The code of a job as it was when the job was submitted, and where a state folder keeps it."""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

#: Files of these kinds decide how fast a job is, besides its script.
SOURCES = (".py", ".yaml", ".yml", ".toml", ".cfg", ".ini")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """How much a snapshot may hold."""

    code_file_mib: float = 1.0  #: a larger file that git does not track is left out
    code_total_mib: float = 100.0
    code_num_files: int = 10_000


class CodeFile(msgspec.Struct, frozen=True, array_like=True):
    """The content of one file."""

    digest: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]  #: SHA-256, a part of a file's name
    num_bytes: Annotated[int, msgspec.Meta(ge=0)]
    is_executable: bool = False


class CodeTree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files and symbolic links by absolute path, none of them through a link: a manifest of a snapshot."""

    roots: tuple[str, ...]  #: the folders that were looked through
    files: dict[str, CodeFile]
    links: dict[str, str]  #: targets, relative to the link; all lie below the roots
    #: Of what decides how the job behaves: equal code at another path has an equal one.
    sources_digest: str = ""
    #: The user from whose machine it came: its paths are of that machine, and lead nowhere on a host.
    uploaded_by: str = ""

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

    def known_by(self, script: str | None) -> CodeTree:
        """The same with the digest of its sources, of which the script is the first.

        Raises:
            KeyError: it does not hold the script.
        """
        lines = [] if script is None else [self.files[script].digest]
        for number, root in enumerate(self.roots):
            lines += [
                f"{number} {posixpath.relpath(path, root)} {file.digest}"
                for path, file in sorted(self.files.items())
                if path.endswith(SOURCES) and path.startswith(root + "/")
            ]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return msgspec.structs.replace(self, sources_digest=digest)

    def fault(self) -> str:
        """Why it can be no tree of files below its roots, whoever wrote it; empty if it can."""
        entries = self.files.keys() | self.links.keys()
        for path in (*self.roots, *entries):
            if posixpath.normpath(path) != path or not path.startswith("/") or "\0" in path:
                return f"{path!r} is no path from the root of the file system"
        if above := entries & self.children().keys():
            return f"{min(above)!r} is a file or a link, and a folder"
        for path in entries:
            if not any(is_within(path, root) for root in self.roots):
                return f"{path!r} is not below {' or '.join(self.roots)}"
        for path, target in self.links.items():
            folder = posixpath.dirname(path)
            leads_to = posixpath.normpath(posixpath.join(folder, target))
            is_known = any(is_within(leads_to, root) or is_within(root, leads_to) for root in self.roots)
            if not is_known or target != posixpath.relpath(leads_to, folder):
                return f"the link {path!r} leads to {target!r}, out of the code"
        return ""


#: A content, where a part of it begins, and that part.
ContentPiece = tuple[CodeFile, Annotated[int, msgspec.Meta(ge=0)], bytes]


class CodeGaps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a store lacks of a tree."""

    digest: str = ""  #: of the tree, which is kept; empty: it lacks something
    lacking: dict[str, int] = {}  #: digests of contents, and how many bytes of each have come


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
