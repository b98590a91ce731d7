"""Code of a job for a platform on another machine, to which only the contents are sent that it lacks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import msgspec

from swell.api.errors import NoAnswer, NoPlatform
from swell.api.fields import InvalidField, check_source
from swell.api.submission import Submission
from swell.api.transport import RESUME_WITHIN_S
from swell.api.verbs import UploadedCode, Verbs
from swell.model.code import CodeFile, CodeTree, ContentPiece
from swell.model.errors import InvalidJob
from swell.model.job import CodeSource, Elasticity
from swell.store.code_snapshot import CodeNotFound, SnapshotRequest, read_snapshot

#: Bytes of the first request. A slow line, and one that breaks, has smaller ones.
FIRST_BYTES, LEAST_BYTES, MOST_BYTES = 512 << 10, 32 << 10, 4 << 20
FAST_S, SLOW_S = 0.5, 2.0
#: Pieces of a request: small files take the platform longer than their bytes do.
MOST_PIECES = 1000
#: What is uploaded may be removed meanwhile, or be changed by another upload of the user.
MOST_ROUNDS = 5

Read = tuple[CodeTree, dict[str, bytes], str]


class CodeSender:
    """Uploads code for submissions; that of several which have the same folder and script once."""

    def __init__(self, platform: Verbs) -> None:
        self._platform = platform
        self._known: dict[tuple[str, str | None], tuple[str, str]] = {}
        self._num_bytes = FIRST_BYTES  #: of the next request

    def sent(self, submission: Submission, has_own_folder: bool) -> tuple[Submission, str]:
        """The same with its code at the platform, and what is left out of it.

        A workdir that this machine does not have is one of the platform's, as live code is.

        Args:
            has_own_folder: it names none, and begins in an empty one.

        Raises:
            InvalidJob: its code cannot be read, or is too much.
        """
        workdir = os.path.realpath(submission.workdir or "")
        if submission.code is CodeSource.LIVE or not os.path.isdir(workdir):
            return submission, ""
        script = submission.script and os.path.realpath(submission.script)
        place = workdir, "" if has_own_folder else script
        if place not in self._known:
            empty = CodeTree(roots=(workdir,), files={}, links={}), dict[str, bytes](), ""
            tree, contents, left_out = empty if has_own_folder else self._read(workdir, script, submission)
            self._known[place] = self._send(UploadedCode(tree=tree, script=script), contents), left_out
        digest, left_out = self._known[place]
        return msgspec.structs.replace(submission, uploaded=digest, workdir=workdir, script=script), left_out

    def _read(self, workdir: str, script: str | None, submission: Submission) -> Read:
        if script is not None and not (submission.python or submission.image):
            check_source(script, submission.elasticity is Elasticity.LIVE)
        limits = self._platform._code_limits()
        try:
            found, contents = read_snapshot(SnapshotRequest(workdir=workdir, script=script, limits=limits))
        except CodeNotFound as error:
            raise InvalidField("code", str(error)) from error
        except OSError as error:
            raise InvalidField("script", f"{error.filename} cannot be read ({error.strerror})") from error
        return found.tree, contents, found.left_out

    def _send(self, code: UploadedCode, contents: dict[str, bytes]) -> str:
        """Returns the digest under which the platform has it."""
        files = {file.digest: file for file in code.tree.files.values()}
        num_rounds, arrived_s = 0, time.monotonic()
        while num_rounds < MOST_ROUNDS:
            gaps = self._platform._upload_code(code)
            if not gaps.lacking:
                return gaps.digest
            lacking = ((files[digest], contents[digest], come) for digest, come in gaps.lacking.items())
            try:
                for pieces in self._batches(lacking):
                    self._send_pieces(pieces)
                    arrived_s = time.monotonic()
                num_rounds += 1
            except (NoPlatform, NoAnswer):  # the line may last for a smaller request
                if time.monotonic() >= arrived_s + RESUME_WITHIN_S:
                    raise
                self._num_bytes = max(LEAST_BYTES, self._num_bytes // 4)
        raise InvalidJob("its code does not stay at the platform; try again, and tell the owner")

    def _send_pieces(self, pieces: list[ContentPiece]) -> None:
        began_s = time.monotonic()
        self._platform._upload_contents(msgspec.msgpack.encode(pieces))
        took_s = time.monotonic() - began_s
        factor = 2.0 if took_s < FAST_S else 0.5 if took_s > SLOW_S else 1.0
        self._num_bytes = max(LEAST_BYTES, min(int(factor * self._num_bytes), MOST_BYTES))

    def _batches(self, lacking: Iterator[tuple[CodeFile, bytes, int]]) -> Iterator[list[ContentPiece]]:
        """What goes into each request. `lacking`: with the bytes of each content that have come."""
        batch, room = list[ContentPiece](), self._num_bytes
        for file, content, come in lacking:
            start = min(come, max(0, len(content) - 1))  # the last piece lets it in
            while start < len(content) or not content:
                piece = content[start : start + room]
                batch.append((file, start, piece))
                start, room = start + max(1, len(piece)), room - len(piece)
                if room <= 0 or len(batch) == MOST_PIECES:
                    yield batch
                    batch, room = [], self._num_bytes
                if not content:
                    break
        if batch:
            yield batch
