"""What a killed `awf` left running is found by its label, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from pipeline.backends import process_tree

from .conftest import PATH, Bench, alive, eventually, labelled

PARENT = """
import asyncio, sys
from pathlib import Path
from pipeline.backends.process import LocalProcesses
from pipeline.engine.ports import ProcessCommand

label, cwd, artifacts, path, script = sys.argv[1:]
command = ProcessCommand(("/bin/sh", "-c", script), Path(cwd), {"PATH": path}, Path(artifacts))
asyncio.run(LocalProcesses(label).run(command, lambda line: print(line.decode(), flush=True)))
"""
SCRIPT = """
setsid /bin/sh -c 'trap "" TERM; echo $$ > pid.new; mv pid.new pid; exec sleep 1000' &
until [ -s pid ]; do sleep 0.01; done
echo ready
wait
"""


@contextmanager
def sleeper(marker: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a marker."""
    with subprocess.Popen(["sleep", "1000"], env={"PATH": PATH, process_tree.MARKER: marker}) as process:
        try:
            eventually(lambda: process_tree.read_marker(psutil.Process(process.pid)) == marker)
            yield process
        finally:
            process.kill()


def test_the_tree_of_a_killed_parent_is_found(bench: Bench) -> None:
    """After the program that started it was killed, a tree is still killed by its label."""
    argv = [sys.executable, "-c", PARENT, bench.label, str(bench.cwd), str(bench.artifacts), PATH, SCRIPT]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
    assert alive(bench.pid())
    assert process_tree.kill_by_label(bench.label) >= 2
    assert not alive(bench.pid())
    assert not labelled(bench.label)
    assert process_tree.kill_by_label(bench.label) == 0


def test_other_labels_are_left_alone(bench: Bench) -> None:
    """A label is not a prefix: neither a longer label nor one with another part matches it."""
    with sleeper(f"{bench.label}x:1") as longer, sleeper(f"{bench.label}:part:1") as deeper:
        assert process_tree.kill_by_label(bench.label) == 0
        assert longer.poll() is None
        assert deeper.poll() is None


def test_the_caller_is_never_killed(bench: Bench) -> None:
    """A process that has the label itself may clean up."""
    code = "import sys; from pipeline.backends import process_tree; print(process_tree.kill_by_label(sys.argv[1]))"
    env = {**os.environ, process_tree.MARKER: f"{bench.label}:1"}
    with sleeper(f"{bench.label}:2"):
        done = subprocess.run([sys.executable, "-c", code, bench.label], env=env, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"1\n"


def test_an_ended_process_has_no_marker(bench: Bench) -> None:
    """Reading the marker of a process that has ended is not an error, whether it was reaped or not."""
    with sleeper(f"{bench.label}:1") as program:
        process = psutil.Process(program.pid)
        program.kill()
        eventually(lambda: process_tree.read_marker(process) is None)
        program.wait()
        assert process_tree.read_marker(process) is None


def test_a_zombie_is_not_alive() -> None:
    """A process that waits to be reaped is listed, but it does not run."""
    with subprocess.Popen(["/bin/sh", "-c", "exit 0"]) as program:
        process = next(each for each in process_tree.list_processes() if each.pid == program.pid)
        eventually(lambda: not process_tree.is_alive(process))
        assert process in process_tree.list_processes()


def test_any_program_name_can_be_read(bench: Bench) -> None:
    """A process whose name has spaces and brackets is found like any other."""
    program = bench.cwd / "a) Z 1 (b"
    program.write_bytes(b"#!/bin/sh\necho ready\nread line\n")
    program.chmod(0o755)
    env = {"PATH": PATH, process_tree.MARKER: f"{bench.label}:1"}
    with subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        assert process_tree.kill_by_label(bench.label) == 1


def test_an_unmarked_descendant_is_killed(bench: Bench) -> None:
    """A process that cleared its environment and left the session is found through its parent."""
    script = "env -i setsid /bin/sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 1000' & wait"
    env = {"PATH": PATH, process_tree.MARKER: f"{bench.label}:1"}
    with subprocess.Popen(["/bin/sh", "-c", script], cwd=bench.cwd, env=env):
        eventually((bench.cwd / "pid").exists)
        assert process_tree.read_marker(psutil.Process(bench.pid())) is None
        assert process_tree.kill_by_label(bench.label) == 2
    assert not alive(bench.pid())


def test_a_descendant_is_remembered_after_its_parents(bench: Bench) -> None:
    """What was once seen in a tree is killed with it, although nothing ties it to the tree any more."""
    script = "env -i setsid /bin/sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 1000' & wait"
    env = {"PATH": PATH, process_tree.MARKER: f"{bench.label}:1"}
    with subprocess.Popen(["/bin/sh", "-c", script], cwd=bench.cwd, env=env) as parent:
        tree = process_tree.ProcessTree(lambda process: process.pid == parent.pid)
        eventually((bench.cwd / "pid").exists)
        assert bench.pid() in {process.pid for process in tree.running()}
        parent.kill()
    assert alive(bench.pid())
    tree.kill()
    assert not alive(bench.pid())


def test_programs_of_other_stores_are_left_alone(bench: Bench) -> None:
    """Cleaning up a store kills what the runs of this store started."""
    with sleeper(f"one@{bench.label}:1") as own, sleeper(f"one@{bench.label}-2:1") as other:
        assert process_tree.kill_by_store(bench.label) == 1
        own.wait()
        assert other.poll() is None
