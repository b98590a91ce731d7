"""The numbers of a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from swell.model.coding import encode
from swell.sim.traces.read import survey

Write = Callable[..., Path]

TEXT = """\
# epoch_s=1500000000
submit_s,id,num_devices,duration_s,model,deadline_s,is_best_effort,is_soft,user,status
0,a,1,100,x,50,,,u1,completed
10,b,4,300,x,460,,1,u2,failed
20,c,8,,y,,1,,u1,
oops,d,1,1,,,,,,
30,e,0,1,,,,,,
40,f,0,1,,,,,,
"""


def test_a_survey_adds_up(write: Write) -> None:
    found = survey(write(TEXT))
    assert (found.jobs, found.span_s, found.epoch_s) == (3, 20.0, 1.5e9)
    assert found.device_seconds == 1300.0
    assert found.mean_devices == 65.0
    assert found.devices == {1: 1, 4: 1, 8: 1}
    assert found.duration_s["max"] == 300.0
    assert found.models == {"x": 2, "y": 1}
    assert (found.with_deadline, found.soft, found.best_effort) == (2, 1, 1)
    assert found.deadline_share["p10"] == 0.5
    assert found.deadline_share["max"] == 1.5
    assert found.status == {"completed": 1, "failed": 1}
    assert (found.users, found.tenants) == (2, 0)
    assert [(lines.why, lines.count, lines.is_malformed) for lines in found.skipped] == [
        ("asks for no device", 2, False),
        ("submit_s is not a number", 1, True),
    ]
    assert [entry.line for entry in found.skipped[0].examples] == [7, 8]


def test_a_survey_is_json_and_knows_an_empty_trace(write: Write) -> None:
    found = json.loads(encode(survey(write("submit_s,id\n"))))
    assert (found["jobs"], found["span_s"], found["duration_s"]) == (0, None, {})
