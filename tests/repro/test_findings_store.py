from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from tests.repro import tiny

from swell.model.errors import InvalidInput
from swell_papers import findings_store
from swell_papers.elasticflow import PAPER
from swell_papers.experiment import Context, Paper
from swell_papers.findings import Findings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def paper() -> Paper:
    one = tiny.experiment(tiny.COMPARED, tiny.line("fifo"), num_cases=2)
    other = tiny.experiment(tiny.line("elasticflow"), name="2", picture="time")
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
    assert {"1a.json", "1a.csv", "1a.png", "2.png"} <= {file.name for file in files}


def test_a_csv_has_all_digits_and_the_truth(files: list[Path]) -> None:
    (table,) = (file for file in files if file.name == "1a.csv")
    row = next(csv.DictReader(table.read_text().splitlines()))
    assert float(row["changed"]) == 2 / 3
    assert row["truth"].startswith("resize cost changed, and everyone")


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


def test_a_page_begins_with_one_screen_and_gives_each_reason_once(paper: Paper, tmp_path: Path) -> None:
    context = Context(data=tiny.write(tmp_path))
    compared = tiny.experiment(tiny.COMPARED, tiny.line("fifo", run=tiny.RUN))
    found = [replace(compared, name=name).run(context) for name in ("1a", "1b")]
    files = findings_store.write_page(paper, found, tmp_path / "docs")
    text = (tmp_path / "docs/results/tiny.md").read_text()
    told = ("| 1a | 1x4 |", "summary.png)", "Read this.", "## Where it falls short", "**Figure 1(a)")
    places = [text.index(words) for words in told]
    assert places == sorted(places)
    assert text.count("It knows no deadlines.") == 1
    assert (tmp_path / "docs/images/tiny/summary.png") in files


def test_a_page_of_one_experiment_shows_its_tables_and_its_conditions(paper: Paper, tmp_path: Path) -> None:
    one = replace(paper, experiments=paper.experiments[:1], summary=None)
    found = one.experiments[0].run(Context(data=tiny.write(tmp_path)))
    text = findings_store.write_page(one, [found], tmp_path / "docs")[0].read_text()
    assert text.index("| 1x4 | ") < text.index("Read this.") < text.index("* resize cost changed")


def test_findings_of_another_version_are_named(paper: Paper, tmp_path: Path) -> None:
    (tmp_path / "1a.json").write_text('{"name": "1a"}')
    with pytest.raises(InvalidInput, match=r"1a\.json cannot be read .*; run 1a again"):
        findings_store.read(paper, tmp_path)
