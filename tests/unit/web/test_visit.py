"""The page of a visit: its prompt, its answer and its logs."""

import re
import time
from pathlib import Path

import pytest
from tests.unit.web.conftest import Browser
from tests.unit.web.workflows import TOOL, run_workflow

from pipeline.web.visit import MAX_TAIL

VISIT = "/s/shop/runs/r1/visit?stage=build&visit=1"
TEXT = "/s/shop/runs/r1/text?stage=build&visit=1"
AGENT = TOOL.replace('kind="tool" command="COMMAND"', 'kind="llm" prompt="Say it: $goal"')
MEGABYTE = 1_000_000


def log_of(store: Path, name: str = "stdout") -> Path:
    """Where the log of the only visit is."""
    return store / "runs" / "r1" / "build" / "1" / f"{name}.log"


def test_the_page_of_a_visit(browser: Browser, store: Path) -> None:
    """It has the outcome and its source, the reason for the transition, and the logs."""
    run_workflow(store, TOOL.replace("COMMAND", "echo out; echo err >&2"))
    page = browser().get(VISIT).text
    assert "exit code" in page
    assert "only transition" in page
    assert re.search(r'id="log-stdout"[^>]*>out\n</pre>', page)
    assert re.search(r'id="log-stderr"[^>]*>err\n</pre>', page)
    assert "exit #1 →" in page


def test_prompt_and_answer_of_an_agent(browser: Browser, store: Path) -> None:
    """Both are on the page, and available in full as plain text."""
    script = '{"build": [{"status": "success", "response": "I <b>said</b> it"}]}'
    run_workflow(store, AGENT, goal="hello", options={"backend": "scripted", "script": script})
    client = browser()
    page = client.get(VISIT).text
    assert "Say it: hello" in page
    assert "I &lt;b&gt;said&lt;/b&gt; it" in page
    prompt = client.get(f"{TEXT}&name=prompt")
    assert "Say it: hello" in prompt.text
    assert prompt.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get(f"{TEXT}&name=response").text == "I <b>said</b> it"


def test_a_huge_log_is_not_loaded(browser: Browser, store: Path) -> None:
    """Of a log of 50 MB the page reads only the end; the whole log is streamed in chunks."""
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    line = b"x" * 99 + b"\n"
    log_of(store).write_bytes(line * (50 * MEGABYTE // len(line)) + b"the last line\n")
    client = browser()
    began = time.monotonic()
    page = client.get(VISIT).text
    assert time.monotonic() - began < 2
    assert "the last line" in page
    assert len(page) < 4 * MAX_TAIL
    assert "50.0 MB" in page
    with client.stream("GET", f"{TEXT}&name=stdout") as whole:
        sizes = [len(part) for part in whole.iter_bytes(MEGABYTE)]
    assert sum(sizes) == 50 * MEGABYTE + len("the last line\n")
    assert len(sizes) > 40


def test_a_growing_log_is_read_on(browser: Browser, store: Path) -> None:
    """A page gets what was added after its position, and no more at once than a page shows."""
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    log, client = log_of(store), browser()
    log.write_text("one\n")
    first = client.get(f"{TEXT}&name=stdout&after=0")
    assert (first.text, first.headers["x-awf-end"]) == ("one\n", "4")
    with log.open("a") as file:
        file.write("two\n")
    second = client.get(f"{TEXT}&name=stdout&after=4")
    assert (second.text, second.headers["x-awf-end"]) == ("two\n", "8")
    assert client.get(f"{TEXT}&name=stdout&after=8").text == ""
    assert client.get(f"{TEXT}&name=stdout&after=99999").text == ""
    log.write_bytes("ä".encode()[:1])
    cut = client.get(f"{TEXT}&name=stdout&after=0")
    assert (cut.text, cut.headers["x-awf-end"]) == ("", "0")  # half a character waits for its other half
    log.write_text("y" * 10 * MAX_TAIL)
    assert len(client.get(f"{TEXT}&name=stdout&after=0").text) == MAX_TAIL


def test_a_truncated_log_starts_with_a_whole_line(browser: Browser, store: Path) -> None:
    """The first line that is shown of a long log is not the end of one."""
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    log_of(store).write_text("".join(f"line {number}\n" for number in range(20_000)))
    assert re.search(r'id="log-stdout"[^>]*>line \d+\n', browser().get(VISIT).text)


@pytest.mark.parametrize(
    "name", ["../../../../awf.db", "..%2f..%2fawf", "/etc/passwd", "stdout.log", "awf", "", "%00", "stdout%00"]
)
def test_no_name_leads_to_another_file(browser: Browser, store: Path, name: str) -> None:
    """A log is chosen by name; anything that is not the name of one is not found."""
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    for more in ("", "&after=0"):
        answer = browser().get(f"{TEXT}&name={name}{more}")
        assert answer.status_code == 404
        assert "root:" not in answer.text
        assert "SQLite" not in answer.text


@pytest.mark.parametrize(
    "query",
    ["stage=../../..&visit=1", "stage=build&visit=../1", "stage=build&visit=1&attempt=7", "stage=build&visit=2"],
)
def test_no_stage_or_visit_leads_to_another_file(browser: Browser, store: Path, query: str) -> None:
    """A visit that was not recorded has no files."""
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    answer = browser().get(f"/s/shop/runs/r1/text?{query}&name=stdout")
    assert answer.status_code in (404, 409)


def test_a_link_out_of_the_store_is_not_followed(browser: Browser, store: Path, tmp_path: Path) -> None:
    """A stage that replaces its log by a link shows nothing of the target."""
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    log_of(store).unlink()
    log_of(store).symlink_to(secret)
    assert "not yours" not in browser().get(VISIT).text
    assert browser().get(f"{TEXT}&name=stdout").status_code == 404


def test_logs_are_escaped(browser: Browser, store: Path) -> None:
    """Markup is shown as text; escape sequences and direction marks are removed or replaced."""
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    log_of(store).write_text("<script>alert(1)</script>\x1b[31mred\x1b[0m \u202eabc\r\nnext\0\n")
    page = browser().get(VISIT).text
    assert (
        "&lt;script&gt;alert(1)&lt;/script&gt;red \N{REPLACEMENT CHARACTER}abc\nnext\N{REPLACEMENT CHARACTER}\n" in page
    )
    assert "<script>alert" not in page
    plain = browser().get(f"{TEXT}&name=stdout")
    assert plain.headers["content-type"].startswith("text/plain")
    assert plain.headers["x-content-type-options"] == "nosniff"


def test_secrets_are_not_shown(browser: Browser, store: Path) -> None:
    """A secret in a log is redacted on every page and in every text."""
    secret = "hunter2-hunter2-hunter2"  # noqa: S105 - what must not be shown
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    log_of(store).write_text(f"the token is {secret}\n")
    client = browser(environ={"API_TOKEN": secret})
    for address in (VISIT, f"{TEXT}&name=stdout", f"{TEXT}&name=stdout&after=0"):
        text = client.get(address).text
        assert secret not in text
        assert "[redacted API_TOKEN]" in text


def test_failed_attempts_have_their_own_pages(browser: Browser, store: Path) -> None:
    """Each attempt of a visit is named, and its logs are its own."""
    source = TOOL.replace('command="COMMAND"', 'command="false" { retry max_attempts=2; }')
    run_workflow(store, source)
    page = browser().get(VISIT).text
    assert "Attempt 2" in page
    assert "attempt=1" in page
    assert "<strong>Attempt 1</strong>" in browser().get(f"{VISIT}&attempt=1").text
