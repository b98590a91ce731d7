"""What a command imports: that is most of the time of a short one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swell.cli.commands import ADMIN_SOURCES, SECTIONS, SOURCES

#: Packages that no command of a client needs, and each takes 10 to 270 ms of CPU time.
HEAVY = frozenset(
    {
        *("asyncio", "email", "httpx", "matplotlib", "numpy", "prometheus_client"),
        *("psutil", "pydantic", "rich", "scipy", "sqlite3", "ssl", "starlette", "uvicorn"),
        *("swell.assemble", "swell.core", "swell.live.board", "swell.model.cluster", "swell.policies"),
    }
)
CODE = """
import sys
from swell.cli.main import run
run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
"""
#: Ctrl-C while the program is imported.
INTERRUPTED = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "swell.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from swell.__main__ import main
main()
"""


def imported(*words: object) -> frozenset[str]:
    """The modules of a process that has run the command."""
    command = [sys.executable, "-P", "-c", CODE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(done.stderr.splitlines()[-1].split())


def test_a_program_that_is_interrupted_as_it_begins_shows_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "swell: interrupted\n")


@pytest.mark.parametrize("words", [("--help",), ("jobs", "--help"), ("--version",)])
def test_help_imports_neither_a_client_nor_what_validates_options(words: tuple[str, ...]) -> None:
    """Also where other packages have commands: what finds them in the standard library imports 49 modules."""
    assert not imported(*words) & (HEAVY | {"h11", "importlib.metadata", "swell.api.client", "yaml"})


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "--limit", "5"),
        ("show", "digits"),
        ("explain", "digits"),
        ("logs", "digits"),
        ("cancel", "digits"),
        ("hold", "digits"),
        ("resume", "digits"),
        ("wait", "digits"),
        ("metrics", "digits"),
        ("nodes",),
        ("retry", "digits"),
        ("promise", "digits", "--deadline", "now+1h"),
        ("submit", "--script", "train.py", "--global-batch", "64", "--steps", "9", "--deadline", "now+1h"),
    ],
)
def test_a_command_that_asks_the_platform_imports_a_client_and_no_more(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    modules = imported(*words, "--state", tmp_path / "nothing")
    assert "swell.api.client" in modules
    assert not modules & HEAVY


def test_a_simulation_imports_nothing_that_validates_options(tmp_path: Path) -> None:
    """A second: numbers, texts and one of a few words are taken as they are."""
    trace = tmp_path / "one.csv"
    trace.write_text("id,submit_s,duration_s,num_devices\na,0,60,1\n")
    modules = imported("simulate", trace, "--cluster", "1x4", "--refused", "soft", "--seed", "3")
    assert not modules & {"email", "pydantic", "rich.table", "sqlite3"}


def test_the_help_has_each_command_once_and_no_more_than_a_page() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(SOURCES) and len(listed) <= 37
    assert not {*SOURCES} & {*ADMIN_SOURCES}


def test_the_daemon_imports_no_agent_and_nothing_that_few_platforms_need() -> None:
    code = "import sys, swell.api.daemon; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    rare = {"cryptography", "httpx", "matplotlib", "ray", "scipy", "torch"}
    agents = {"swell.executors.controller.controller", "swell.executors.local.agent.process"}
    assert not set(done.stdout.split()) & (rare | agents)
