"""Jobs that are compared: their curves in one chart, and what they were given in a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.store.views import job_view

from swell.api.page.history_page import options, parted
from swell.api.user_list import OWNER

from .browser import Watched, serious_faults
from .conftest import Served
from .test_job_browser import SOON_MS, WILD, a_curve


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--lr 0.1 --epochs=3", {"lr": "0.1", "epochs": "3"}),
        ("-b 64 --amp --name x", {"b": "64", "amp": "on", "name": "x"}),
        ("--shift -0.5 --to -1e-3", {"shift": "-0.5", "to": "-1e-3"}),
        ("--milestones 30 60 --seed 1", {"milestones": "30 60", "seed": "1"}),
        (
            "data/ model=vit optimizer.lr=3e-4",
            {"argument 1": "data/", "model": "vit", "optimizer.lr": "3e-4"},
        ),
        ("--lr 1 --lr 2 -- --x y", {"lr": "1 2", "argument 1": "--x", "argument 2": "y"}),
        ("", {}),
    ],
)
def test_options_of_a_command_line_are_read(line: str, told: dict[str, str]) -> None:
    assert options(line.split()) == told


def test_parameters_that_differ_stand_apart() -> None:
    jobs = [{"lr": "1", "seed": "0"}, {"lr": "2", "seed": "0"}, {"lr": "1", "seed": "0", "amp": "on"}]
    assert parted(jobs) == (["lr", "amp"], {"seed": "0"})


def put_sweep(served: Served, **changes: Any) -> None:
    served.control.curves = {"loss": a_curve([2.0, 1.0, 0.5]), WILD: a_curve([1.0, 2.0])}
    for number, lr in enumerate((0.1, 0.01)):
        args = ("--lr", str(lr), "--seed", "7")
        served.control.put(job_view(id=f"lr-{number}", name="lr", args=args, group="sweep", **changes))
    served.control.put(job_view(id="other-1", name="other", group=""))


def test_a_group_is_compared(served: Served) -> None:
    put_sweep(served, metrics={WILD: 0.5}, tags=(f"note={WILD}",))
    with served.opened() as client:
        text = client.get("/compare?group=sweep").text
        assert "Jobs of sweep" in text and "<img" not in text
        assert '<th scope="col" class="given">lr</th>' in text
        assert '<td class="given">0.1</td>' in text and '<td class="given">0.01</td>' in text
        assert "<code>seed 7</code>" in text and "other" not in text
        lines = json.loads(text.partition('id="lines">')[2].partition("</script>")[0])
        assert lines["metric"] == "loss"
        assert [line["values"] for line in lines["lines"]] == [[2.0, 1.0, 0.5]] * 2
        assert client.get("/compare", params={"group": "sweep", "metric": WILD}).status_code == 200
        assert client.get("/compare?group=none").status_code == 404
        assert client.get("/compare?job=none").status_code == 404
        assert "by their boxes" in client.get("/compare").text
        assert 'href="/compare?group=sweep"' in client.get("/jobs/lr-0").text
        assert "/compare?group" not in client.get("/jobs/other-1").text


@pytest.mark.slow
def test_jobs_are_chosen_in_a_browser_and_compared(served: Served, browser: Browser) -> None:
    put_sweep(served)
    with browser.new_context() as context:
        watched = Watched(context)
        page = watched.page
        page.set_default_timeout(SOON_MS)
        page.goto(served.page.link(OWNER))
        page.wait_for_selector(".link.live")
        expect(page.locator("#compare button")).to_be_disabled()
        page.locator("tr[data-id='lr-0']").get_by_label("Compare lr").check()
        page.get_by_label("Search").fill("other")
        page.get_by_label("Compare other").check()
        page.get_by_label("Search").fill("")
        expect(page.locator("tr[data-id='lr-0'] input")).to_be_checked()
        assert serious_faults(page) == []
        page.get_by_role("button", name="Compare 2").click()
        legend = page.locator(".curves-legend button:has(svg)")
        expect(legend).to_have_text(["lr0.31", "other0.31"])  # as the table says
        page.get_by_label("Against").select_option("time")
        expect(page.locator(".curves-plot")).to_have_attribute(
            "aria-label", "loss of 2 jobs. Arrow keys read values, + and - zoom, Escape shows all."
        )
        expect(page.locator(".compared tbody tr")).to_have_count(2)
        assert serious_faults(page) == []
        page.goto(f"{served.url}/jobs/lr-0")
        expect(page.locator(".parameters tbody tr")).to_have_text(["lr0.1", "seed7"])
        assert serious_faults(page) == []
        assert watched.complaints == []
