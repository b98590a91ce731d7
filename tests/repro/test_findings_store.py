from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.repro import tiny

from swell_papers import findings_store
from swell_papers.elasticflow import BY_POLICY, PAPER
from swell_papers.experiment import Context, Paper
from swell_papers.findings import Findings
from swell_papers.log_experiment import LogLine

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def paper() -> Paper:
    one = tiny.experiment(tiny.COMPARED, LogLine(policy="fifo"), num_cases=2, pictures=(BY_POLICY,))
    other = tiny.experiment(LogLine(policy="elasticflow"), name="2", over_time="efficiency")
    return replace(
        PAPER, name="tiny", title="A tiny paper", introduction="Read this.", experiments=(one, other)
    )


@pytest.fixture(scope="module")
def found(paper: Paper, tmp_path_factory: pytest.TempPathFactory) -> list[Findings]:
    """Of each experiment."""
    context = Context(data=tiny.write(tmp_path_factory.mktemp("data")))
    return [experiment.run(context) for experiment in paper.experiments]


@pytest.fixture(scope="module")
def page_files(paper: Paper, found: list[Findings], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The page, its pictures, and what these are drawn from."""
    return findings_store.write_page(paper, found, tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def files(found: list[Findings], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All that is written of them, in one folder."""
    folder = tmp_path_factory.mktemp("written")
    return [file for findings in found for file in findings_store.write(findings, folder)]


def test_what_is_written_is_read_again_and_the_same_bytes_come_twice(
    paper: Paper, found: list[Findings], files: list[Path], tmp_path: Path
) -> None:
    for findings in found:
        findings_store.write(findings, tmp_path)
    assert findings_store.read(paper, files[0].parent) == found
    for file in files:
        assert file.read_bytes() == (tmp_path / file.name).read_bytes()
    assert {"1a.json", "1a.csv", "1a.png", "2-hours.png"} <= {file.name for file in files}


def test_the_page_has_a_line_of_each_experiment_with_all_its_files(page_files: list[Path]) -> None:
    page, *files = page_files
    text = page.read_text()
    assert (page.parent.name, page.name) == ("results", "tiny.md")
    assert text.startswith("# A tiny paper\n")
    assert text.count("* **Figure 1(a): three jobs** ([picture](../images/tiny/") == 2
    assert {file.suffix for file in files} == {".csv", ".png"} and "Three jobs are few." in text
    for file in files:
        folder = "tiny" if file.suffix == ".csv" else "../images/tiny"
        assert f"]({folder}/{file.name})" in text and file.exists()


def test_a_page_begins_with_its_claims_and_tells_what_was_missed(paper: Paper, tmp_path: Path) -> None:
    data, fifo = Context(data=tiny.write(tmp_path)), LogLine(policy="fifo")
    found = [tiny.experiment(tiny.COMPARED, fifo, name=name, at_least=0.9).run(data) for name in ("1a", "1b")]
    text = findings_store.write_page(paper, found, tmp_path / "docs")[0].read_text()
    told = ("| 1a | elasticflow on 1x4", "Read this.", "## Where it falls short", "**Figure 1(a)")
    places = [text.index(words) for words in told]
    assert places == sorted(places)
    assert text.count("* elasticflow on 1x4: deadline satisfaction") == 2
