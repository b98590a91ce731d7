"""What is added most often is added in few places: a verb, a field of a job, a counter, a column of jobs.

Each is added to a copy of the program, and used there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import swell

SOURCE = Path(swell.__file__).parent
MOST_FILES = 3
USE_WITHIN_S = 60.0


class Addition(NamedTuple):
    """Lines that are put behind others, and a program that uses what they add."""

    lines: dict[str, list[tuple[str, str]]]  #: by file, each behind the text that stands before it
    use: str


VERB = Addition(
    {
        "api/verbs.py": [
            (
                '    @verb("GET", "/v1/counts", Role.VIEW)\n    def count_jobs(self) -> dict[Phase, int]:\n'
                '        """The number of jobs in each phase."""\n',
                '\n    @verb("GET", "/v1/jobs/{job_id}/age", Role.VIEW, failures=(404,))\n'
                "    def age(self, job_id: str) -> float:\n"
                '        """Seconds since a job was submitted."""\n',
            )
        ],
        "live/platform.py": [
            (
                "        return self._board.calendar.time_of(self._clock.now_s())\n",
                "\n    def age(self, job_id: str) -> float:\n"
                "        return self.now_s() - self.job(job_id).submitted_s\n",
            )
        ],
    },
    """
import json
from pathlib import Path
from starlette.testclient import TestClient
from swell.api.client import Client
from swell.api.server import create_app
from swell.api.verbs import VERBS
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

control = FakeControl(Path("unused"))
control.put(job_view(submitted_s=control.now_s() - 100.0))
server = TestClient(create_app(control, "t" * 40), base_url="http://localhost")
server.headers["Authorization"] = "Bearer " + "t" * 40
assert 100.0 <= server.get("/v1/jobs/digits-1/age").json() < 200.0
assert server.get("/v1/jobs/nobody/age").status_code == 404
document = server.get("/v1/openapi.json").json()["paths"]["/v1/jobs/{job_id}/age"]["get"]
assert document["summary"] == "Seconds since a job was submitted."
asked = []
class Transport:
    def ask(self, verb, given):
        asked.append((verb.path, given))
        return 3.0
assert Client(Transport()).age("digits-1") == 3.0
assert asked == [("/v1/jobs/{job_id}/age", {"job_id": "digits-1"})]
""",
)

FIELD = Addition(
    {
        "api/submission.py": [
            (
                "bounds=(0, 2**63 - 1))] = 0\n",
                '    colour: Annotated[str, _option("NAME", "Colour of the job in charts.")] = ""\n',
            ),
            ("            seed=self.seed,\n", "            colour=self.colour,\n"),
        ],
        "model/job.py": [("    seed: int = 0  #: order of samples\n", '    colour: str = ""\n')],
        "api/words.py": [('        ("seed", str(spec.seed)),\n', '        ("colour", spec.colour),\n')],
    },
    """
from pathlib import Path
from swell.api.submission import parse
from swell.api.words import submission_facts
from swell.cli.main import run
from swell.model.coding import decoder, encode
from swell.model.event import JobSubmitted

script = Path("train.py").absolute()
script.write_text("pass")
fields = {"script": str(script), "workdir": str(script.parent), "global_batch": 8, "colour": "red"}
spec = parse({**fields, "steps": 9}).to_spec(0.0)
submitted = JobSubmitted(at_s=0.0, job_id="a", spec=spec)
kept = decoder(JobSubmitted).decode(encode(submitted))
assert ("colour", "red") in submission_facts(kept, True)
assert run(["submit", "--help-all"]) == 0
""",
)

SHOWN_FIELD = Addition(
    {
        "api/submission.py": FIELD.lines["api/submission.py"],
        "model/job.py": FIELD.lines["model/job.py"],
        "model/view.py": [
            (
                "    webhook: bool = False  #: an address that its owner has named is told of it\n",
                '    colour: str = ""\n',
            )
        ],
    },
    """
from pathlib import Path
from swell.api.submission import parse
from swell.core.record import JobRecord

script = Path("train.py").absolute()
script.write_text("pass")
fields = {"script": str(script), "workdir": str(script.parent), "global_batch": 8, "colour": "red"}
spec = parse({**fields, "steps": 9}).to_spec(0.0)
assert JobRecord(id="a", spec=spec, submitted_s=0.0).view().colour == "red"
""",
)

COUNTER = Addition(
    {
        "live/counters.py": [
            (
                '        self._submitted = self._counter("swell_jobs_submitted", '
                '"Jobs that were submitted.", of_class)\n',
                '        self._looks = self._counter("swell_head_batches", "Batches of the head.")\n',
            ),
            ("        news = turn.news\n", "        self._looks.inc()\n"),
        ]
    },
    """
from prometheus_client import CollectorRegistry, generate_latest
from swell.live.counters import Counters
from tests.live.turns import turn

counters = Counters()
counters.hear(turn())
registry = CollectorRegistry()
registry.register(counters)
assert "swell_head_batches_total 1.0" in generate_latest(registry).decode().splitlines()
assert any(one.name == "swell_head_batches_total" for one in counters.described)
""",
)

COLUMN = Addition(
    {
        "store/database.py": [
            (
                "    tenant TEXT AS (json_extract(view, '$.tenant')) STORED,\n",
                "    user TEXT AS (json_extract(view, '$.user')) STORED,\n",
            )
        ]
    },
    """
import sqlite3
import tempfile
from pathlib import Path
from swell.store.journal import SqlJournal
from tests.store.views import job_view

path = Path(tempfile.mkdtemp()) / "journal.db"
journal = SqlJournal(path)
journal.keep([job_view(user="ana")])
assert [view.user for view in journal.archived_jobs()] == ["ana"]
journal.close()
assert sqlite3.connect(path).execute("SELECT id, user FROM jobs").fetchall() == [("digits-1", "ana")]
""",
)


@pytest.mark.parametrize(
    "addition",
    [
        pytest.param(VERB, id="verb"),
        pytest.param(FIELD, id="field of a job"),
        pytest.param(SHOWN_FIELD, id="field of a job's view"),
        pytest.param(COUNTER, id="counter"),
        pytest.param(COLUMN, id="column of jobs"),
    ],
)
def test_it_is_added_in_few_files(tmp_path: Path, addition: Addition) -> None:
    assert len(addition.lines) <= MOST_FILES
    changed = tmp_path / "swell"
    shutil.copytree(SOURCE, changed, ignore=shutil.ignore_patterns("__pycache__"))
    for name, added in addition.lines.items():
        file = changed / name
        text = file.read_text()
        for before, lines in added:
            assert text.count(before) == 1, f"{name} has not once: {before}"
            text = text.replace(before, before + lines)
        file.write_text(text)
    code = (
        f"import swell; assert swell.__file__.startswith({str(tmp_path)!r}), swell.__file__\n{addition.use}"
    )
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=USE_WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
