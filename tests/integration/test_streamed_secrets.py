"""A secret that an agent's answer spells out piece by piece: no file of the store holds any part of it."""

import os
import sys
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

TOKEN = "Zq7~Xw9=Jk4_Vb8-Hy2+Gp6"  # noqa: S105 - the secret that is planted; no part of it occurs by chance
PARTS = {TOKEN[at : at + 3].encode() for at in range(len(TOKEN) - 2)}
WORKFLOW = """
workflow "Streamed" {
  version 2
  start "build"
  stage "build" kind="llm" prompt="Build it."
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""
# Two pieces for every position at which the secret can be cut, then one for each of its characters.
PIECES = """
import json, sys
secret = SECRET
if "--version" in sys.argv or "--help" in sys.argv:
    sys.exit(1)  # it cannot be asked, so it is trusted to have its flags
pieces = [part for at in range(1, len(secret)) for part in (f"cut at {at}: " + secret[:at], secret[at:] + " more\\n")]
pieces += ["in characters: ", *secret, "\\n", "the end"]
def write(message):
    print(json.dumps(message), flush=True)
"""
GEMINI = """
write({"type": "init", "session_id": "s"})
for piece in pieces:
    write({"type": "message", "role": "assistant", "content": piece, "delta": True})
    write({"type": "error", "severity": "warning", "message": "in between"})
write({"type": "result", "status": "success", "stats": {}})
"""
PI = """
so_far = ""
for piece in pieces:
    so_far += piece
    content = [{"type": "text", "text": so_far}]
    message = {"role": "assistant", "content": content, "stopReason": "stop"}
    write({"type": "message_update", "message": message, "assistantMessageEvent": {"delta": piece}})
write({"type": "message_end", "message": message})
write({"type": "agent_settled"})
"""
ACP = """
def update(what, **fields):
    write({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": what, **fields}}})
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "session/prompt":
        update("tool_call", toolCallId="1", title="Run", kind="execute", status="pending")
        so_far = ""
        for piece in pieces:
            so_far += piece
            content = [{"type": "content", "content": {"type": "text", "text": so_far}}]
            update("tool_call_update", toolCallId="1", status="in_progress", content=content)
        update("tool_call_update", toolCallId="1", status="completed", content=content)
        for piece in pieces:
            update("agent_message_chunk", content={"type": "text", "text": piece})
            update("agent_thought_chunk", content={"type": "text", "text": piece})
            update("usage_update", used=1, size=2)
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    write({"id": asked["id"], "result": result.get(asked["method"], {"stopReason": "end_turn"})})
"""


@pytest.mark.parametrize(("name", "program"), [("gemini", GEMINI), ("pi", PI), ("acp", ACP)])
def test_pieces_of_a_secret_are_not_kept(awf: Awf, tmp_path: Path, name: str, program: str) -> None:
    """Wherever it is cut, and even if other messages come between its pieces."""
    project, folder = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    folder.mkdir()
    (project / "streamed.awf.kdl").write_text(WORKFLOW)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{PIECES.replace('SECRET', repr(TOKEN))}{program}")
    path.chmod(0o755)
    command = ("--agent-command", str(path)) if name == "acp" else ()
    done = awf(
        *("run", "streamed.awf.kdl", "--run-id", "r1", "--goal", "it", "--log", "events.log", "--backend", name),
        *command,
        cwd=project,
        PATH=f"{folder}{os.pathsep}{os.environ['PATH']}",
        MY_TOKEN=TOKEN,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = {path: path.read_bytes() for path in (project / ".awf").rglob("*") if path.is_file()}
    files[project / "events.log"] = (project / "events.log").read_bytes()
    assert {
        str(path): found for path, data in files.items() if (found := {part for part in PARTS if part in data})
    } == {}
    assert not [part for part in PARTS if part in (done.stdout + done.stderr).encode()]
    shown = awf("context", "r1", "build.response", cwd=project)
    assert shown.returncode == 0, shown
    answer = shown.stdout
    assert answer.count("[redacted MY_TOKEN]") == len(TOKEN)
    assert (project / ".awf/runs/r1/build/1/stdout.log").read_text().count("[redacted MY_TOKEN]") >= len(TOKEN)
