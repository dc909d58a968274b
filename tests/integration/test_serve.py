"""`awf serve` as a process."""

import json
import re
import signal
import socket
import subprocess
import sys
from itertools import islice
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from tests.integration.conftest import Awf
from tests.integration.serving import serving_at
from tests.unit.findings import reviews

from pipeline.cli.services import serve_command
from pipeline.web import app as web_app

WORKFLOW = """
workflow "Ship" {
  version 2
  goal "Ship it"
  start "build"
  stage "build" kind="tool" command="true"
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""
LONGEST = 30.0


def test_a_run_is_seen_while_it_happens(tmp_path: Path, awf: Awf) -> None:
    """The printed address opens the runs; an open page gets the records of another process; Ctrl-C ends the server."""
    (tmp_path / "ship.awf.kdl").write_text(WORKFLOW)
    with serving_at(tmp_path, "--port", "0") as (process, address), httpx.Client(timeout=LONGEST) as browser:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
        page = browser.get(address, follow_redirects=True)
        assert page.status_code == 200
        assert "token" not in str(page.url)
        events = re.search(r'data-events="([^"]+)" data-position="([^"]+)"', page.text)
        assert events
        with browser.stream("GET", page.url.join(events[1]), params={"after": events[2]}) as stream:
            assert awf("run", "ship.awf.kdl", "--run-id", "r1").returncode == 0
            lines = (line for line in stream.iter_lines() if line.startswith("data: "))
            messages = [json.loads(line.removeprefix("data: ")) for line in islice(lines, 3)]
            assert {one["run"] for one in messages} == {"r1"}
            assert "success" in browser.get(page.url).text
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
        assert process.stderr
        assert process.stderr.read().splitlines()[-1] == "Stopped."


def test_a_started_run_survives_the_server(tmp_path: Path, awf: Awf) -> None:
    """A run that was started in the browser continues when the server is killed."""
    (tmp_path / "workflows").mkdir()
    waits = "for i in $(seq 600); do [ -e go ] && echo went && exit 0; sleep 0.1; done; exit 1"
    (tmp_path / "workflows" / "ship.awf.kdl").write_text(WORKFLOW.replace('command="true"', f'command="{waits}"'))
    with serving_at(tmp_path, "--port", "0") as (process, address), httpx.Client(timeout=LONGEST) as browser:
        page = browser.get(address, follow_redirects=True).url
        fields = {"workflow": "ship", "goal": "Go on"}
        started = browser.post(page.join("start"), data=fields, headers={"Origin": str(page.join("/")).rstrip("/")})
        assert started.status_code == 303
        process.kill()
        assert process.wait(10) != 0
    run = started.headers["location"].rpartition("/")[2]
    (tmp_path / "go").touch()
    followed = awf("logs", run, "build", "--follow")
    assert followed.stdout == "went\n"


def test_a_walk_through_in_the_browser(tmp_path: Path, awf: Awf) -> None:
    """One finding at a time is decided by forms, and the ledger has the decisions afterwards."""
    (tmp_path / "a.py").write_text("".join(f"{reviews.code(number)}\n" for number in range(1, 4)))
    found = [reviews.item(number, suggested_fix="Do it.", owner="review-fixer") for number in range(1, 4)]
    (tmp_path / "review.json").write_text(json.dumps(reviews.review(*found)))
    assert awf("findings", "import", "review.json").returncode == 0
    with serving_at(tmp_path, "--port", "0") as (_, address), httpx.Client(timeout=LONGEST) as browser:
        runs = browser.get(address, follow_redirects=True).url
        ours = {"Origin": str(runs.join("/")).rstrip("/")}
        walk = runs.join(browser.post(runs.join("walk"), data={"route": "each"}, headers=ours).headers["location"])
        for number, key in enumerate(("apply", "skip", "apply"), 1):
            asked = browser.get(walk).text
            assert f"Finding {number} of 3" in asked
            assert browser.post(walk, data={"key": key, "number": str(number)}, headers=ours).status_code == 303
        assert "2 accepted, not applied yet" in browser.get(walk).text
    told = [json.loads(awf("findings", "show", str(number), "--json").stdout)["history"] for number in (1, 2, 3)]
    decided = [change["word"] for history in told for change in history if change["what"] == "decision"]
    assert sorted(decided) == ["apply", "apply", "skip"]


def test_a_taken_port_is_an_error(awf: Awf) -> None:
    """A port that was asked for is not replaced by another one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = awf("serve", "--port", str(port))
    assert done.returncode == 2
    assert str(port) in done.stderr


def test_the_default_port_may_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no port was asked for and the default is taken, a free one is used."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(web_app, "DEFAULT_PORT", port)
        server = web_app.Server([tmp_path], "127.0.0.1", None, read_only=False)
    with server.listener:
        assert f":{port}/" not in server.address


def test_a_missing_store_is_an_error(awf: Awf) -> None:
    """A mistyped store would look like one without runs."""
    done = awf("serve", "--store", "nowhere")
    assert done.returncode == 2
    assert '"nowhere"' in done.stderr


def test_without_the_extra_the_error_says_how_to_install_it(tmp_path: Path, script: Awf) -> None:
    """The dashboard is an extra: without it the command names what to install."""
    (tmp_path / "starlette.py").write_text('raise ModuleNotFoundError("gone", name="starlette")')
    done = script("serve", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'awf-pipeline[web]'" in done.stderr


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)])  # noqa: S104 - what is warned of
def test_listening_on_the_network_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    host: str,
    warned: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """The warning says that the connection is not encrypted."""
    monkeypatch.setattr(web_app.Server, "serve_forever", lambda server: server.listener.close())
    done = CliRunner().invoke(serve_command, ["--host", host, "--port", "0", "--store", str(tmp_path)])
    assert done.exit_code == 0
    assert ("encrypted" in done.stderr) is warned
    assert "0.0.0.0" not in done.stdout  # noqa: S104 - as above


def test_an_unknown_host_is_an_error(awf: Awf) -> None:
    """The error names the host."""
    done = awf("serve", "--host", "256.256.256.256")
    assert done.returncode == 2
    assert "256.256.256.256" in done.stderr


def test_help_loads_no_server() -> None:
    """What only this command needs is loaded by no other."""
    heavy = "'starlette', 'uvicorn', 'jinja2', 'sse_starlette'"
    code = f"import sys, pipeline.cli.services; sys.exit(any(name in sys.modules for name in ({heavy})))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
