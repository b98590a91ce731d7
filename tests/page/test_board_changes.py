"""What has changed since a reader has looked, of a real head."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.stage import on_stage
from tests.live.test_platform import until

from swell.live import board as board_module
from swell.model.job import Phase
from swell.model.view import JobView


def test_a_reader_that_follows_knows_what_a_new_one_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('training')\n")
    known: dict[str, JobView] = {}
    with on_stage(tmp_path / "state") as stage:
        turn = 0

        def follow() -> None:
            nonlocal turn
            found = stage.platform.changes(turn, also=list(known))
            turn = found.turn
            known.update((view.id, view) for view in found.views)

        for name in ("first", "second"):
            stage.run(script, name=name, workers="1:1")
            follow()
        first = next(iter(known))
        stage.client.cancel(first)
        until(lambda: stage.platform.job(first).phase is Phase.CANCELLED)
        follow()
        assert known == {view.id: view for view in stage.platform.changes(0).views}
        assert known[first].phase is Phase.CANCELLED
        assert stage.platform.changes(turn).views == []
        told = [job_id for job_id, _ in stage.platform.changes(0).stories]
        assert set(told) == set(known)


def test_a_reader_that_was_away_for_long_is_told_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "TURNS_KEPT", 1)
    script = tmp_path / "train.py"
    script.write_text("print('training')\n")
    with on_stage(tmp_path / "state") as stage:
        job_id = stage.run(script, workers="1:1")
        stage.run(script, name="other", workers="1:1")
        found = stage.platform.changes(1)
        assert found.is_all
        assert job_id in {view.id for view in found.views}
