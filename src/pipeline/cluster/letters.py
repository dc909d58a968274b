"""The letter-box of a cluster: answers and wishes as objects beside the records. The first answer to a visit stays."""

import json
from dataclasses import asdict
from typing import Any

from pipeline.cluster.artefacts import Artefacts
from pipeline.engine.ports import CancelRequest, HumanAnswer


class SharedLetters:
    """The letters of one cluster."""

    def __init__(self, store: Artefacts) -> None:
        self._store = store

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        key = _place(answer.run_id, answer.stage, answer.visit)
        if self._store.create(key, _body(asdict(answer))):
            return answer
        return HumanAnswer(**json.loads(self._store.get(key)))

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        body = self._store.find(_place(run_id, stage, visit))
        return HumanAnswer(**json.loads(body)) if body else None

    def put_cancel_request(self, wish: CancelRequest) -> None:
        number = self.cancel_requests(wish.run_id) + 1
        while not self._store.create(_wish(wish.run_id, number), _body(asdict(wish))):
            number += 1

    def cancel_request(self, run_id: str, after: int) -> CancelRequest | None:
        body = self._store.find(_wish(run_id, after + 1))
        return CancelRequest(**json.loads(body)) if body else None

    def cancel_requests(self, run_id: str) -> int:
        return len(self._store.names(f"runs/{run_id}/cancellations/"))


def _place(run_id: str, stage: str, visit: int) -> str:
    return f"runs/{run_id}/answers/{stage}/{visit}"


def _wish(run_id: str, number: int) -> str:
    return f"runs/{run_id}/cancellations/{number:04d}"


def _body(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()
