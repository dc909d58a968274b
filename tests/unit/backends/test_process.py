"""Real programs: what is kept of their output, and that none of their processes survives."""

import asyncio
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.backends.process import LocalProcesses, start_detached
from pipeline.backends.process_tree import MARKER
from pipeline.backends.program import run_program
from pipeline.engine.ports import ExitReason, ProcessCommand
from pipeline.redaction import Redactor, Secret

from .conftest import DEADLINE, PATH, Bench, alive, eventually, labelled

# A grandchild in a session of its own that ignores TERM; the shell says "ready" once it is there.
STUBBORN = """
setsid /bin/sh -c 'trap "" TERM; echo $$ > pid.new; mv pid.new pid; exec sleep 1000' &
until [ -s pid ]; do sleep 0.01; done
echo ready
"""
# The same without the marker: only its descent gives it away.
NAMELESS = """
env -i PATH="$PATH" setsid /bin/sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 1000' &
until [ -s pid ]; do sleep 0.01; done
echo ready
"""
# Without the marker and in a group of its own, but in the program's session.
ANOTHER_GROUP = """
import os
from pathlib import Path
reader, writer = os.pipe()
if pid := os.fork():
    Path("pid").write_text(str(pid))
    os.close(writer)
    os.read(reader, 1)  # ends when the other has become `sleep`
else:
    os.setpgid(0, 0)
    os.execve("/bin/sleep", ["sleep", "1000"], {})
"""


def test_output_is_kept(bench: Bench) -> None:
    """Both streams are in their files, their tails in the result, with the exit code."""
    result = bench.run(bench.shell("echo out; echo err >&2; exit 3"))
    assert (result.ending, result.exit_code, result.message) == (ExitReason.EXITED, 3, "")
    assert (result.stdout_tail, result.stderr_tail) == ("out", "err")
    assert (bench.artifacts / "stdout.log").read_bytes() == b"out\n"
    assert result.stderr.read_bytes() == b"err\n"
    assert not result.truncated
    assert 0 < result.duration < 30


def test_a_grandchild_is_gone_after_a_normal_exit(bench: Bench) -> None:
    """A program that ends by itself leaves nothing running."""
    result = bench.run(bench.shell(STUBBORN))
    assert (result.ending, result.exit_code) == (ExitReason.EXITED, 0)
    assert not alive(bench.pid())


def test_a_member_of_the_session_is_gone_after_a_normal_exit(bench: Bench) -> None:
    """It is killed although it has its own group and an empty environment."""
    assert bench.run(bench.command(sys.executable, "-c", ANOTHER_GROUP)).exit_code == 0
    assert not alive(bench.pid())


@pytest.mark.parametrize("script", [STUBBORN, NAMELESS])
def test_a_grandchild_is_gone_after_a_timeout(bench: Bench, script: str) -> None:
    """A timeout kills the whole tree: a process in its own session that ignores SIGTERM, or one without the marker."""
    result = bench.run(bench.shell(f"{script}\nwait", timeout=2.0))
    assert (result.ending, result.exit_code) == (ExitReason.TIMEOUT, None)
    assert result.stdout_tail == "ready"
    assert not alive(bench.pid())


def test_a_grandchild_is_gone_after_a_cancellation(bench: Bench) -> None:
    """A cancelled task ends only after its processes."""

    async def cancel() -> None:
        ready = asyncio.Event()
        task = asyncio.create_task(bench.processes.run(bench.shell(f"{STUBBORN}\nwait"), lambda _: ready.set()))
        await ready.wait()
        assert alive(bench.pid())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(bench.pid())

    asyncio.run(cancel())


def test_a_second_cancellation_changes_nothing(bench: Bench) -> None:
    """A second cancellation during the grace period leaves no process behind."""
    script = f"trap 'echo term' TERM\n{STUBBORN}\nwhile :; do sleep 0.05; done"
    processes = LocalProcesses(bench.label, grace=1.5)  # longer than anything else would wait

    async def cancel_twice() -> None:
        said: asyncio.Queue[bytes] = asyncio.Queue()
        task = asyncio.create_task(processes.run(bench.shell(script), said.put_nowait))
        for expected in (b"ready", b"term"):
            assert await said.get() == expected
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(bench.pid())

    asyncio.run(cancel_twice())


def test_a_program_can_clean_up_when_it_is_stopped(bench: Bench) -> None:
    """SIGTERM comes first, and what the program then writes is kept."""
    result = bench.run(bench.shell("trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.01; done", timeout=1))
    assert result.ending is ExitReason.TIMEOUT
    assert result.stdout_tail == "hi\nbye"


def test_an_orphan_does_not_delay_the_result(bench: Bench) -> None:
    """A background process that holds the pipe open is not waited for."""
    result = bench.run(bench.shell("sleep 1000 & echo $! > pid; echo done"))
    assert (result.ending, result.stdout_tail) == (ExitReason.EXITED, "done")
    assert not alive(bench.pid())


def test_output_has_a_limit(bench: Bench) -> None:
    """Of 70 MB the first 64 MiB are kept, the file says so, and memory use stays flat."""
    tracemalloc.start()
    try:
        result = bench.run(bench.command("head", "-c", "70000000", "/dev/zero"), lambda _: None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = 64 * 1024 * 1024
    note = f"\n[{70_000_000 - kept} more bytes were not kept: the limit is {kept}]\n".encode()
    assert result.truncated
    assert result.stdout.stat().st_size == kept + len(note)
    with result.stdout.open("rb") as file:
        file.seek(kept)
        assert file.read() == note
    assert peak < 16 * 1024 * 1024  # the line being read may have 8 MiB


def test_binary_output_is_kept_unchanged(bench: Bench) -> None:
    """Bytes that are not text are unchanged on disk and replaced in the tail."""
    result = bench.run(bench.shell(r"printf '\377\000\342\200x'"))
    assert result.stdout.read_bytes() == b"\xff\x00\xe2\x80x"
    assert result.stdout_tail == "\N{REPLACEMENT CHARACTER}\0\N{REPLACEMENT CHARACTER}x"


def test_an_overlong_line_is_skipped(bench: Bench) -> None:
    """A line of 10 MB is replaced by a note, and the next one is read as usual."""
    lines: list[bytes] = []
    bench.run(bench.shell("head -c 10000000 /dev/zero; echo; echo after"), lines.append)
    assert lines == [b"[a line of 10000000 bytes was skipped]", b"after"]


def test_only_a_line_feed_ends_a_line(bench: Bench) -> None:
    """Other Unicode line breaks are part of a line; the last line needs no line feed."""
    text = "a\N{LINE SEPARATOR}b\x85c\x0bd\r\n\nlast"
    lines: list[bytes] = []
    bench.run(bench.command("cat", stdin=text), lines.append)
    assert [line.decode() for line in lines] == ["a\N{LINE SEPARATOR}b\x85c\x0bd\r", "", "last"]


def test_a_line_may_be_longer_than_a_pipe(bench: Bench) -> None:
    """A line of 400 kB arrives in one piece."""
    lines: list[bytes] = []
    bench.run(bench.command("cat", stdin="x" * 400_000 + "\n"), lines.append)
    assert lines == [b"x" * 400_000]


def test_closed_output_is_not_an_exit(bench: Bench) -> None:
    """A program that closes its output is still waited for."""
    result = bench.run(bench.shell("exec >&- 2>&-; sleep 0.3; exit 4"))
    assert (result.ending, result.exit_code) == (ExitReason.EXITED, 4)


def test_a_silent_program_is_stopped(bench: Bench) -> None:
    """Without output for too long, a program is stopped."""
    result = bench.run(bench.shell("echo x; sleep 1000", idle=0.3))
    assert (result.ending, result.exit_code, result.stdout_tail) == (ExitReason.IDLE, None, "x")


def test_slow_output_is_not_silence(bench: Bench) -> None:
    """A program that keeps writing to either stream may run longer than the idle limit."""
    script = "for i in 1 2 3 4 5 6; do sleep 0.1; echo $i; sleep 0.1; echo $i >&2; done"
    result = bench.run(bench.shell(script, idle=1.0))
    assert (result.ending, result.exit_code) == (ExitReason.EXITED, 0)
    assert result.duration > 1.0


def test_a_long_standard_input_arrives_complete(bench: Bench) -> None:
    """Five megabytes reach a program that reads them, and do not disturb one that does not."""
    assert bench.run(bench.command("wc", "-c", stdin="é" * 2_500_000)).stdout_tail.strip() == "5000000"
    assert bench.run(bench.command("true", stdin="x" * 5_000_000)).exit_code == 0
    assert [path.name for path in sorted(bench.artifacts.iterdir())] == ["stderr.log", "stdout.log"]


def test_an_empty_standard_input_is_dev_null(bench: Bench) -> None:
    """It is not an empty file, which a search tool might search."""
    assert bench.run(bench.shell("readlink /proc/self/fd/0")).stdout_tail == "/dev/null"


def test_the_environment_is_the_one_given(bench: Bench) -> None:
    """Nothing else reaches a program, except the marker with the label."""
    result = bench.run(bench.command("/usr/bin/env", env={"A": "1", "B": "x y"}))
    *given, marker = sorted(result.stdout_tail.split("\n"), key=lambda line: line.startswith(MARKER))
    assert given == ["A=1", "B=x y"]
    assert marker.startswith(f"{MARKER}={bench.label}:")
    assert len(marker) > len(f"{MARKER}={bench.label}:") + 16


def test_a_program_leads_a_session(bench: Bench) -> None:
    """Signals for this process do not reach it."""
    result = bench.run(bench.shell("echo $$; cut -d' ' -f6 /proc/$$/stat"))
    pid, session = result.stdout_tail.split()
    assert pid == session != str(os.getsid(0))


def test_a_foreign_signal_is_named(bench: Bench) -> None:
    """A program killed by another process did not exit."""
    result = bench.run(bench.shell("echo x; kill -9 $$"))
    assert (result.ending, result.exit_code, result.message) == (ExitReason.SIGNAL, None, "SIGKILL")
    assert result.stdout_tail == "x"


def not_executable(bench: Bench) -> ProcessCommand:
    script = bench.cwd / "script"
    script.write_text("#!/bin/sh\n")
    return bench.command(str(script))


UNSTARTABLE: dict[str, tuple[Callable[[Bench], ProcessCommand], str]] = {
    "missing": (lambda bench: bench.command("no-such-program"), '"no-such-program" was not found'),
    "not executable": (not_executable, "may not be executed"),
    "no directory": (lambda bench: bench.command("true", cwd=bench.cwd / "gone"), 'gone": No such file or directory'),
    "a file for a directory": (lambda bench: bench.command("true", cwd=Path(__file__)), "Not a directory"),
    "too long": (lambda bench: bench.command("true", "x" * 200_000), "too long"),
    "a NUL": (lambda bench: bench.command("true", "a\0b"), "embedded null byte"),
    "half a character": (lambda bench: bench.command("true", "\ud800"), "surrogates not allowed"),
    "a name with =": (lambda bench: bench.command("true", env={"PATH": PATH, "A=B": ""}), "environment variable name"),
    "nothing": (lambda bench: bench.command(), "the command is empty"),
}


@pytest.mark.parametrize("case", UNSTARTABLE)
def test_a_program_that_cannot_be_started_is_a_result(bench: Bench, case: str) -> None:
    """The message says why; nothing is raised."""
    build, message = UNSTARTABLE[case]
    result = bench.run(build(bench))
    assert result.ending is ExitReason.SPAWN_ERROR
    assert result.exit_code is None
    assert message in result.message
    assert result.stdout.read_bytes() == b""


def test_a_listener_that_raises_stops_the_program(bench: Bench) -> None:
    """Its error is raised after the process tree is gone."""

    def listen(line: bytes) -> None:
        raise LookupError(line)

    with pytest.raises(LookupError):
        bench.run(bench.shell(f"{STUBBORN}\nwait"), listen)
    assert not alive(bench.pid())


def test_an_exit_is_noticed_without_process_descriptors(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On systems without them the exit is polled for."""
    monkeypatch.delattr(os, "pidfd_open")
    result = bench.run(bench.shell("sleep 0.2; echo x; exit 5"))
    assert (result.ending, result.exit_code, result.stdout_tail) == (ExitReason.EXITED, 5, "x")
    assert bench.run(bench.shell(f"{STUBBORN}\nwait", idle=1.0)).ending is ExitReason.IDLE
    assert not alive(bench.pid())


def test_a_cancellation_after_the_exit_waits_for_the_orphans(bench: Bench) -> None:
    """A cancellation while an ended program's pipes are drained leaves no process behind."""

    async def cancel() -> None:
        ready = asyncio.Event()
        task = asyncio.create_task(bench.processes.run(bench.shell(STUBBORN), lambda _: ready.set()))
        await ready.wait()
        await asyncio.to_thread(eventually, lambda: len(labelled(bench.label)) == 1)  # the shell has ended
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(bench.pid())

    asyncio.run(cancel())


def test_many_programs_run_at_once(bench: Bench, tmp_path: Path) -> None:
    """The end of one program does not end another."""

    async def run_all() -> list[int | None]:
        commands = []
        for number in range(20):
            artifacts = tmp_path / str(number)
            artifacts.mkdir()
            commands.append(bench.shell(f"sleep 0.{number % 5}; exit {number}", artifacts=artifacts))
        result = await asyncio.gather(*map(bench.processes.run, commands))
        return [each.exit_code for each in result]

    assert asyncio.run(run_all()) == list(range(20))


def test_output_is_redacted(bench: Bench) -> None:
    """No secret is in the files, tails or lines, however it is split; JSON stays JSON."""
    bench.processes = LocalProcesses(bench.label, redactor=Redactor((Secret("X", "s3cr3t-value"),)))
    lines: list[bytes] = []
    script = "printf '{\"a\":\"s3cr3t'; printf -- '-value\"}\\nlast s3cr3t-value'; echo s3cr3t-value >&2"
    result = asyncio.run(bench.processes.run(bench.shell(script), lines.append))
    assert lines == [b'{"a":"[redacted X]"}', b"last [redacted X]"]
    assert result.stdout.read_bytes() == b'{"a":"[redacted X]"}\nlast [redacted X]'
    assert result.stderr.read_bytes() == b"[redacted X]\n"
    assert (result.stdout_tail, result.stderr_tail) == ('{"a":"[redacted X]"}\nlast [redacted X]', "[redacted X]")


def test_a_start_error_is_redacted(bench: Bench) -> None:
    """A program's name may contain a secret."""
    processes = LocalProcesses(bench.label, redactor=Redactor((Secret("X", "s3cr3t-value"),)))
    result = asyncio.run(processes.run(bench.command("/no/s3cr3t-value")))
    assert result.message == '"/no/[redacted X]" was not found, or is a script whose interpreter was not found'


def test_keys_are_redacted_by_default(bench: Bench) -> None:
    """Without a redactor, keys of well-known formats are still redacted."""
    assert bench.run(bench.shell("echo ghp_abcdefghijklmnopqrstuvwxyz0123456789")).stdout_tail == "[redacted]"


def test_output_written_just_before_the_exit_is_read(bench: Bench) -> None:
    """A program that fills its pipe without waiting loses nothing that the widened pipe can hold."""
    widened = "while fcntl.fcntl(1, fcntl.F_GETPIPE_SZ) < 900_000: pass"
    script = f"import fcntl, os\n{widened}\nos.set_blocking(1, False)\nos.write(1, b'x' * 900_000)\nos._exit(0)"
    done = bench.run(bench.command(sys.executable, "-c", script))
    assert done.stdout.stat().st_size == 900_000


def test_a_short_program_returns_its_output(tmp_path: Path) -> None:
    """It gets its standard input, directory and environment, and returns both streams and the exit code."""
    script = 'cat; pwd; echo "$A" >&2; exit 3'
    done = run_program(["/bin/sh", "-c", script], env={"A": "1"}, timeout=10, cwd=tmp_path, stdin=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, f"in\n{tmp_path}\n".encode(), b"1\n")


@pytest.mark.parametrize("end", ["wait", "exit 0"])
def test_a_short_program_that_takes_too_long_is_killed_with_its_group(tmp_path: Path, end: str) -> None:
    """What it started in the background is gone too, even if that alone keeps its output open."""
    script = f"sleep 1000 & echo $! > pid; {end}"
    with pytest.raises(TimeoutError):
        run_program(["/bin/sh", "-c", script], env={"PATH": PATH}, timeout=1.0, cwd=tmp_path)
    eventually(lambda: not alive(int((tmp_path / "pid").read_text())))


@pytest.mark.parametrize("argv", [["no-such-program"], ["true", "a\0b"]])
def test_a_short_program_that_cannot_be_started_is_an_os_error(argv: list[str]) -> None:
    """A missing program and an argument with a NUL are the same kind of error."""
    with pytest.raises(OSError, match=r"."):
        run_program(argv, env={"PATH": PATH}, timeout=10)


def test_a_detached_program_leads_its_own_session(tmp_path: Path) -> None:
    """Both of its streams are in the file, and the signals for this process do not reach it."""
    with (tmp_path / "log").open("wb") as log:
        program = start_detached(["/bin/sh", "-c", "echo $$ $(cut -d' ' -f6 /proc/$$/stat) >&2"], tmp_path, log)
    assert program.wait(timeout=DEADLINE) == 0
    pid, session = (tmp_path / "log").read_text().split()
    assert pid == session == str(program.pid)
