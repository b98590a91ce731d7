"""Draws docs/images/simulation-report.png: the first screen of a report, in a real Chromium.

Run it from the repository's root, with the folder of ElasticFlow's public artifact:
`python docs/make_report_picture.py DATA`. `SWELL_CHROMIUM` names another browser than the one on the path.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from swell.cli import main as cli

PICTURE = Path(__file__).absolute().parent / "images" / "simulation-report.png"
COMMAND = (
    "simulate elasticflow/traces/195job.csv --cluster 16x8 --profiles elasticflow/throughputs_A100 "
    "--policy elasticflow,edf_admission,equal_share"
)
WIDTH, HEIGHT = 1160, 1120


def main(data: Path) -> None:
    """Simulate as the page says, open the report, and take its picture."""
    browser = os.environ.get("SWELL_CHROMIUM") or shutil.which("chromium-headless-shell")
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    with TemporaryDirectory() as folder, sync_playwright() as play:
        report = Path(folder) / "report.html"
        os.chdir(data)
        if cli.run([*COMMAND.split(), "--html", str(report)]):
            raise SystemExit(1)
        page = play.chromium.launch(executable_path=browser, args=args).new_page(
            viewport={"width": WIDTH, "height": HEIGHT}
        )
        page.goto(report.as_uri())
        page.wait_for_selector("#jobs table")
        page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
