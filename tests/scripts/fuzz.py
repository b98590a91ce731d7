"""`make fuzz-scripts`: train drawn scripts alone and through drawn lives, and print a table of verdicts.

`python -m tests.scripts.fuzz --seed 1 --num 200`. The smallest script of each bad kind is kept, and named.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.scripts.gang import FEW_CHANGES, NotProved, agent_in, outcome_at, outcome_of_a_life
from tests.scripts.grammar import DrawnScript, draw

from swell.wire import messages

#: An error that ends with these says what the script has to change, so it is no crash.
TOLD = ("LoopError", "EpochLeft", "ScriptError")
#: Steps after which a job is audited when its changes are over: at growing distances.
AUDITED = (20, 40, 70)
BAD = ("silent", "crash", "false alarm")


@dataclass(frozen=True)
class Verdict:
    """What became of one drawn script: `same`, `told`, `silent`, `crash` or `false alarm`, and why."""

    script: DrawnScript
    kind: str
    detail: str = ""


def judge(script: DrawnScript, folder: Path) -> Verdict:
    """Try the script, train it alone, and train it through a life that its seed draws."""
    path = folder / f"drawn_{script.seed}.py"
    path.write_text(script.text)
    if told := told_by_the_trial_run(path, folder):
        return Verdict(script, "false alarm" if script.is_sound else "told", told)
    try:
        alone = outcome_at(path, folder / "alone", 1)
        learnt = outcome_of_a_life(path, folder / "life", script.seed, FEW_CHANGES, AUDITED)
    except NotProved as error:
        return Verdict(script, "false alarm" if script.is_sound else "told", str(error))
    except AssertionError as error:  # how the harness says that a worker failed, with its log
        text = str(error)
        if any(name in text for name in TOLD):
            return Verdict(script, "false alarm" if script.is_sound else "told", last_words(text))
        return Verdict(script, "crash", last_words(text))
    different = learnt.differences(alone)
    if different and learnt.hints:
        return Verdict(script, "false alarm" if script.is_sound else "told", learnt.hints[0])
    return Verdict(script, "silent" if different else "same", str(different) if different else "")


def told_by_the_trial_run(path: Path, folder: Path) -> str:
    """What holds the script to one worker, or refuses it, before it trains; empty if nothing does."""
    agent = agent_in(folder / "trial", mode="profile", total_steps=None, compares=True, resumes=True)
    try:
        agent.start(0, path, str(folder / "final.pt"))
        agent.exit_status(0)
        found = [finding for _, said in agent.all_said(messages.Profiled)[-1:] for finding in said.findings]
        found += [said.finding for _, said in agent.all_said(messages.NotCompared)]
        failed = [said.message for _, said in agent.all_said(messages.Failed)]
    finally:
        agent.close()
    return "; ".join(
        [f"{one.name} {one.place}" for one in found if one.holds] + [last_words(text) for text in failed]
    )


def last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if "Error" in line or "EpochLeft" in line]
    return (lines or text.splitlines() or [""])[-1][:300]


def judge_twice(seed: int, root: Path) -> Verdict:
    """A crash counts if it comes again: a busy machine has time-outs."""
    for attempt in (1, 2):
        folder = root / f"{seed}-{attempt}"
        folder.mkdir()
        verdict = judge(draw(seed), folder)
        shutil.rmtree(folder, ignore_errors=True)
        if verdict.kind != "crash":
            break
    return verdict


def judged(seeds: Sequence[int], num_at_once: int) -> Iterator[Verdict]:
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(num_at_once) as pool:
        yield from pool.map(partial(judge_twice, root=Path(root)), seeds)


def table_of(verdicts: Sequence[Verdict]) -> str:
    counts = Counter((verdict.script.is_sound, verdict.kind) for verdict in verdicts)
    kinds = ("same", "told", *BAD)
    lines = [f"{'':10}" + "".join(f"{kind:>13}" for kind in kinds)]
    for name, is_sound in (("sound", True), ("unsound", False)):
        lines.append(f"{name:10}" + "".join(f"{counts[is_sound, kind]:>13}" for kind in kinds))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if a script was silent, crashed or was held although it is sound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first script")
    parser.add_argument("--num", type=int, default=200, help="how many scripts are drawn")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument(
        "--keep", type=Path, default=Path("out/fuzz"), help="folder for the smallest failing scripts"
    )
    options = parser.parse_args(arguments)
    verdicts = []
    for verdict in judged(range(options.seed, options.seed + options.num), options.at_once):
        verdicts.append(verdict)
        if verdict.kind in BAD:
            unsound = f" (unsound: {verdict.script.unsound})" if verdict.script.unsound else ""
            print(f"{verdict.script.seed} {verdict.kind}{unsound}: {verdict.detail}", flush=True)
    print(table_of(verdicts))
    options.keep.mkdir(parents=True, exist_ok=True)
    for kind in BAD:
        of_kind = [verdict.script for verdict in verdicts if verdict.kind == kind]
        if of_kind:
            smallest = min(of_kind, key=lambda script: len(script.text))
            path = options.keep / f"{kind.replace(' ', '_')}_{smallest.seed}.py"
            path.write_text(smallest.text)
            print(f"smallest {kind}: {path}")
    return 1 if any(verdict.kind in BAD for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
