"""The dashboard under load: other processes write runs, and open pages follow all of them.

The pages do what a browser does: each holds a stream, and fetches its part again after a message, at most every
300 milliseconds after the last response. Prints the time from a record to its message, what the server needs, and
whether any page missed a record or received one twice; exits with 1 in that case.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import RunCreated, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.journal.sqlite import SqliteJournal

WRITERS = 4  # processes
WAIT = 0.3  # seconds between two fetches of the same part, as in awf.js
TIMEOUT = 30.0  # seconds for the last message to arrive
SOURCE = (
    'workflow "Load" {\n  version 2\n  start "build"\n  stage "build" kind="tool" command="true"\n'
    '  stage "exit" kind="exit"\n  transition from="build" to="exit"\n}\n'
)

RecordKey = tuple[str, int]  # a run, and the number of a record


@dataclass
class Page:
    """What one open page received."""

    records: list[tuple[RecordKey, float]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)  # messages that are not about a record
    fetched: list[float] = field(default_factory=list)  # seconds of each fetch of its part


@dataclass(frozen=True)
class Served:
    """A server and its address."""

    process: subprocess.Popen[str]
    host: str
    port: int
    cookie: str
    store: str  # its path at the server

    def headers(self) -> dict[str, str]:
        """What every request must send."""
        return {"Cookie": self.cookie, "Host": f"{self.host}:{self.port}"}

    def memory(self) -> float:
        """Its peak memory in megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def cpu(self) -> float:
        """The CPU seconds it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(root: Path) -> Iterator[Served]:
    """Run `awf serve` for the store of a directory."""
    command = [str(Path(sys.executable).with_name("awf")), "serve", "--port", "0", "--store", str(root / ".awf")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout  # noqa: S101 - it is piped
            address = urlsplit(process.stdout.readline().strip())
            host, port, token = str(address.hostname), int(address.port or 0), address.query.removeprefix("token=")
            yield Served(process, host, port, f"awf-{port}={token}", f"/s/{root.name}")
        finally:
            process.terminate()


def create(root: Path, runs: int) -> list[str]:
    """Create runs."""
    names = [f"run-{number}" for number in range(runs)]
    with closing(SqliteJournal(root / ".awf")) as journal:
        for name in names:
            record = RunCreated(
                at=time.time(), run_id=name, file="load.awf.kdl", source=SOURCE, goal=name, cwd="/", version="1"
            )
            journal.create(name, record)
    return names


def write(root: Path, runs: list[str], visits: int, rate: float) -> list[tuple[RecordKey, float]]:
    """Append visits to runs in turn, `rate` a second; return each record with the time at which it was durable."""
    done, began = list[tuple[RecordKey, float]](), time.monotonic()
    with closing(SqliteJournal(root / ".awf")) as journal:
        for number in range(visits):
            for run in runs:
                time.sleep(max(0.0, began + len(done) / rate - time.monotonic()))
                seq = journal.append(run, _visit(number + 1))
                done.append(((run, seq), time.time()))
    return done


def _visit(number: int) -> VisitCompleted:
    return VisitCompleted(
        at=time.time(),
        stage="build",
        visit=number,
        attempt=1,
        operations=(),
        outcome=Outcome(status=Status.SUCCESS, duration=0.1, reason="it went well " * 5),
        chosen=Selection(target="build", reason="the only way"),
        ends=None,
    )


async def follow(served: Served, page: Page, expected: int, ready: asyncio.Event) -> None:
    """Be an open page until `expected` records were received."""
    body = await asyncio.to_thread(_get, served, f"{served.store}/runs")
    found = re.search(r'data-position="([^"]+)"', body)
    reader, writer = await asyncio.open_connection(served.host, served.port, limit=1 << 20)
    after = found[1] if found else ""
    asked = "".join(f"{name}: {value}\r\n" for name, value in served.headers().items())
    writer.write(f"GET {served.store}/events?after={after} HTTP/1.0\r\n{asked}\r\n".encode())  # 1.0: no chunks
    news = asyncio.Event()
    looking = asyncio.create_task(_look(served, page, news))
    try:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT)  # the headers
        ready.set()
        while len(page.records) < expected:
            line = await asyncio.wait_for(reader.readline(), TIMEOUT)
            if not line:
                raise ConnectionError("the server ended the stream of a page")
            if line.startswith(b"data: "):
                _take(page, json.loads(line[6:]))
                news.set()
    finally:
        looking.cancel()
        writer.close()


def _take(page: Page, message: dict[str, Any]) -> None:
    if "position" in message and "run" in message:
        page.records.append(((message["run"], message["position"]), time.time()))
    else:
        page.others[message["what"]] += 1


async def _look(served: Served, page: Page, news: asyncio.Event) -> None:
    """Fetch the rows again after each message."""
    while True:
        await news.wait()
        news.clear()
        began = time.monotonic()
        await asyncio.to_thread(_get, served, f"{served.store}/runs?part=rows")
        page.fetched.append(time.monotonic() - began)
        await asyncio.sleep(WAIT)


def _get(served: Served, path: str) -> str:
    with closing(HTTPConnection(served.host, served.port, timeout=TIMEOUT)) as connection:
        connection.request("GET", path, headers=served.headers())
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise ConnectionError(f"{path} was answered with {answer.status}")
        return text


async def load(served: Served, root: Path, runs: list[str], visits: int, rate: float, pages: int) -> dict[str, Any]:
    """Write while pages are open, and compare."""
    opened = [(Page(), asyncio.Event()) for _ in range(pages)]
    expected = len(runs) * visits
    following = [asyncio.create_task(follow(served, page, expected, ready)) for page, ready in opened]
    await asyncio.wait_for(asyncio.gather(*(ready.wait() for _, ready in opened)), TIMEOUT)
    parts = [part for number in range(WRITERS) if (part := runs[number::WRITERS])]
    with ProcessPoolExecutor(len(parts), mp_context=get_context("spawn")) as pool:
        writing: list[Future[list[tuple[RecordKey, float]]]] = [
            pool.submit(write, root, part, visits, rate * len(part) / len(runs)) for part in parts
        ]
        written = dict([one for part in writing for one in await asyncio.wrap_future(part)])
    over, waiting = await asyncio.wait(following, timeout=TIMEOUT)
    for one in waiting:
        one.cancel()
    problems = [repr(error) for one in over if (error := one.exception())]
    problems += [f"a page still waits after {TIMEOUT:.0f} seconds"] * len(waiting)
    return {"problems": problems, **_compare([page for page, _ in opened], written)}


def _compare(pages: list[Page], written: dict[RecordKey, float]) -> dict[str, Any]:
    """Compare each page with the journal."""
    counts = [Counter(key for key, _ in page.records) for page in pages]
    late = sorted(at - written[key] for page in pages for key, at in page.records if key in written)
    fetched = [took for page in pages for took in page.fetched]
    took = max(written.values()) - min(written.values())
    return {
        "seconds": round(took, 1),
        "rate": round(len(written) / took, 1) if took else None,
        "written": len(written),
        "received": sum(map(len, counts)),
        "lost": sum(len(written.keys() - one.keys()) for one in counts),
        "doubled": sum(number - 1 for one in counts for number in one.values()),
        "unknown": sum(len(one.keys() - written.keys()) for one in counts),
        "reloads": sum(page.others["reload"] for page in pages),
        "latency_median_ms": round(1000 * median(late)) if late else None,
        "latency_99th_ms": round(1000 * quantiles(late, n=100)[-1]) if len(late) > 1 else None,
        "latency_most_ms": round(1000 * late[-1]) if late else None,
        "fetches": len(fetched),
        "fetch_median_ms": round(1000 * median(fetched)) if fetched else None,
    }


def measure(runs: int, pages: int, rate: float, seconds: float) -> dict[str, Any]:
    """Measure once, in a temporary directory."""
    visits = max(1, round(rate * seconds / runs))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "load"
        names = create(root, runs)
        with serving(root) as served:
            result = asyncio.run(load(served, root, names, visits, rate, pages))
            result |= {"server_mb": round(served.memory(), 1), "server_cpu_s": round(served.cpu(), 1)}
    return {"runs": runs, "pages": pages, **result}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--rate", type=float, default=200.0, help="records a second, of all runs together")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--smallest", action="store_true", help="one run, two pages, one second, to see that it works")
    given = parser.parse_args()
    if given.smallest:
        result = measure(runs=1, pages=2, rate=10.0, seconds=1.0)
    else:
        result = measure(given.runs, given.pages, given.rate, given.seconds)
    print(json.dumps(result, indent=2))
    return 1 if result["lost"] or result["doubled"] or result["unknown"] or result["problems"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
