"""What keeps a submission from becoming a job, and what its user can do about it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.live.parts import spec

from swell.api.intake import SubmissionCheck
from swell.api.submission import Submission
from swell.model.errors import InvalidJob, Unwritable
from swell.store.code_store import CodeLimits, CodeStore
from swell.store.folder import StateFolder

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("number", "known_as", "text"),
    [
        (errno.ENOSPC, Unwritable, "make room on its disk"),
        (errno.EDQUOT, Unwritable, "make room on its disk"),
        (errno.EACCES, InvalidJob, "cannot be stored"),
    ],
)
def test_code_that_cannot_be_kept_is_no_fault_of_the_job_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, known_as: type[Exception], text: str
) -> None:
    def fail(*_: object) -> str:
        raise OSError(number, "no luck")

    monkeypatch.setattr(CodeStore, "take", fail)
    intake = SubmissionCheck(StateFolder(tmp_path), CodeLimits())
    with pytest.raises(known_as, match=text):
        intake.prepare(Submission(global_batch=8, steps=1), spec())
