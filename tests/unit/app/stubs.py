"""Programs with the names of agents: real files that are really run, without a model behind them."""

import json
from pathlib import Path
from typing import Any

from pipeline.backends.select import AGENTS

ANSWERED = {  # how pi prints an answer
    "type": "message_end",
    "message": {
        "role": "assistant",
        "content": [{"type": "text", "text": "OK"}],
        "usage": {"input": 12, "output": 3, "cost": {"total": 0.02}},
        "stopReason": "stop",
    },
}
REFUSED: dict[str, Any] = {
    "type": "message_end",
    "message": {"role": "assistant", "stopReason": "error", "errorMessage": ""},
}
SETTLED = {"type": "agent_settled"}


def stub(
    folder: Path, name: str, *, version: str = "1.2.3", of: str = "", without: str = "", prints: tuple[object, ...] = ()
) -> Path:
    """Make a program that knows its version and an agent's flags but `without`; other calls leave lines in NAME.ran."""
    flags = AGENTS[of or name].flags if of or name in AGENTS else ()
    help = "\n".join(f"  {flag} VALUE" for flag in flags if flag != without)
    lines = "\n".join(json.dumps(line) for line in prints)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"""#!/bin/sh
case "$*" in
*--version) echo asked >> "$0.asked"; echo "{name} version {version} (stub)";;
*--help) echo asked >> "$0.asked"; echo '{help}';;
*) echo "$*" >> "$0.ran"; while read -r line; do :; done; echo '{lines}';;
esac
""")
    path.chmod(0o755)
    return path


def was_run(path: Path) -> bool:
    """Whether a stub was given work."""
    return Path(f"{path}.ran").exists()


def asked(path: Path) -> int:
    """How often a stub was asked for its version or its flags."""
    log = Path(f"{path}.asked")
    return len(log.read_text().splitlines()) if log.exists() else 0
