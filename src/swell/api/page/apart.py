"""The process that answers one question of the page: what if, or which jobs a file holds.

    python -m swell.api.page.apart

A forecast computes for seconds, and a file may be made to be slow to read: here neither holds up the head.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from swell.api.errors import ApiError, NoPlatform
from swell.api.job_file import FileJob, load
from swell.api.page.question import Answer, HandedQuestion, Question
from swell.model.errors import InvalidInput, InvalidJob
from swell.store.errors import StateError

#: Jobs that train come first.
NICENESS = 10


def answer(handed: HandedQuestion) -> Answer:
    """What is wrong with the question is part of the answer."""
    question = handed.question
    try:
        question.check()
        jobs = _jobs(question)
        if handed.state:
            return Answer(what_if=_forecast(handed))
        for job in jobs:
            job.to_spec(time.time())
        return Answer(jobs=tuple(job.submission.anchored(job.path.parent) for job in jobs))
    except (InvalidInput, InvalidJob, NoPlatform, ApiError, StateError, OSError) as error:
        return Answer(error=str(error))
    except (OverflowError, RecursionError) as error:
        return Answer(error=f"a value is too large or nested too deeply ({error}); correct it")


def _jobs(question: Question) -> list[FileJob]:
    """Return the jobs of the pasted file. Raises InvalidJob.

    A variable without a value is refused: a page has no environment of its own to take it from.
    """
    jobs = load(question.file, question.text) if question.text.strip() else []
    for job in jobs:
        for name, value in job.submission.env.items():
            if value is None:
                raise InvalidJob(
                    f"{job.path}, line {job.field_lines.get('env', job.line)}: env: {name[:80]!r} has no "
                    "value, and a browser has no environment to take it from; write the value"
                )
    return jobs


def _forecast(handed: HandedQuestion) -> msgspec.Raw:
    """Raises as `what_if`."""
    from swell.api.what_if import WhatIfQuery, what_if  # a simulator, which takes a second to import

    question = handed.question
    has_file = bool(question.text.strip())
    wish = WhatIfQuery(
        policy=question.policy or None,
        add_nodes=question.add_nodes,
        kind=question.kind,
        drain=question.drain,
        deadlines=question.deadlines,
        submit=question.file if has_file else None,
        text=question.text if has_file else None,
    )
    return msgspec.Raw(msgspec.json.encode(what_if(handed.state, wish)))


def _use_zone(zone: str) -> None:
    """Read times as those of this zone; one that this machine does not know is left for its own."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return
    os.environ["TZ"] = zone
    time.tzset()


def main() -> None:
    """Reads a `HandedQuestion`, writes an `Answer`."""
    limit_s = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))  # also where the daemon is killed meanwhile
    os.nice(NICENESS)
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=HandedQuestion)
    _use_zone(task.question.zone)
    sys.stdout.buffer.write(msgspec.json.encode(answer(task)))


if __name__ == "__main__":
    main()
