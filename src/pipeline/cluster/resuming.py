"""How a run is to be taken up again: the records for it, left in the store by whoever wants it."""

import secrets

from pipeline.cluster.artefacts import Artefacts
from pipeline.engine.records import AnyRecord
from pipeline.journal.codec import decode, encode


def leave(store: Artefacts, run_id: str, records: list[AnyRecord]) -> str:
    """Leave the records for a run's next resumption; the key by which a worker finds them."""
    key = f"runs/{run_id}/resumptions/{secrets.token_hex(8)}"
    store.put(key, b"\n".join(encode(record) for record in records))
    return key


def resumption(store: Artefacts, key: str) -> list[AnyRecord]:
    """The records that somebody left."""
    run_id = key.split("/")[1]
    return [decode(body, run_id, number) for number, body in enumerate(store.get(key).split(b"\n"), 1)]
