"""Fault injection: an ASGI layer around the service that makes chosen calls go wrong.

Which faults a call meets depends on the seed, on the rollout's place in the job and on the call
(path and turn) alone. A call that is to fail in several ways fails in one after another, attempt
by attempt, and is then answered; so every class meets exactly its share of the calls, and a client
that keeps trying gets through. The service behind the layer knows nothing of it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rehearsal.agent_keys import PATH as CREDENTIALS_PATH
from rehearsal.agent_keys import KeyRing
from rehearsal.draws import uniform
from rehearsal.errors import ServiceError
from rehearsal.fault_replies import (
    Reply,
    defective,
    delivered_message,
    json_reply,
    processed,
    refusal,
)
from rehearsal.job_runtime_api import JOB_HEADER, TRAJECTORY_HEADER
from rehearsal.outages import Line, outages
from rehearsal.server import Service
from rehearsal.settings import Fault, FaultSettings
from rehearsal.trajectories import Trajectories

LEDGER_FILE = "faults.jsonl"
CHAT, COMPLETE, REWARD = "/v1/chat/completions", "/complete-rollout", "/update-reward"
REFUSED = (
    Fault.UNAUTHORIZED,
    Fault.FORBIDDEN,
    Fault.THROTTLED,
    Fault.THROTTLED_RETRY_AFTER,
    Fault.SERVER_ERROR,
    Fault.UNAVAILABLE,
)
FAILING = {
    CHAT: (*REFUSED, Fault.STREAM_CUT, Fault.EMPTY_CHOICES),
    COMPLETE: REFUSED,
    REWARD: REFUSED,
}
"""Faults after which a client has to ask again."""
FINAL = {
    CHAT: (Fault.MALFORMED_TOOL_CALL, Fault.LENGTH_WITHOUT_CALL, Fault.DUPLICATED_CHUNKS),
    COMPLETE: (Fault.LOST_ACKNOWLEDGEMENT, Fault.ALREADY_PROCESSED),
    REWARD: (Fault.LOST_ACKNOWLEDGEMENT, Fault.ALREADY_PROCESSED),
}
"""Faults of an answer that counts: a call meets at most one of them."""
KEY_FAULTS = (Fault.CREDENTIALS_MISSING, Fault.CREDENTIALS_REVOKED, Fault.CREDENTIALS_ROTATING)
ROTATING_LIFE_S = 60.0
"""Within botocore's mandatory refresh window of ten minutes: every read fetches another pair."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the job runtime, as far as faults and the ledger need to know it."""

    path: str
    job_arn: str
    trajectory_id: str
    body: Mapping[str, Any]

    @property
    def messages(self) -> list[Any]:
        """The conversation of a sample request; empty for reports."""
        messages = self.body.get("messages")
        return [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []

    @property
    def turn(self) -> int:
        """How many answers the policy gave before; 0 for reports."""
        return sum(message.get("role") == "assistant" for message in self.messages)


class FaultPlan:
    """Decides which faults each call meets, attempt by attempt."""

    def __init__(self, settings: FaultSettings) -> None:
        self._settings = settings
        # One entry a call for the life of the process: a fault run ends with its job.
        self._left: dict[tuple[str, str, int], list[tuple[Fault, ...]]] = {}

    def next(self, call: Call, draw: Callable[[int, str], float]) -> tuple[Fault, ...]:
        """The faults of the call's next attempt; `draw` is its trajectory's."""
        key = (call.trajectory_id, call.path, call.turn)
        if key not in self._left:
            self._left[key] = self.attempts(call, draw)
        return self._left[key].pop(0) if self._left[key] else ()

    def attempts(self, call: Call, draw: Callable[[int, str], float]) -> list[tuple[Fault, ...]]:
        """The faults of each attempt at a call, until it is answered as it should be."""

        def number(purpose: str) -> float:
            return draw(call.turn, f"fault/{self._settings.seed}/{call.path}/{purpose}")

        failing = [(f,) for f in FAILING[call.path] if number(f) < self._rate(f)]
        slow = Fault.SLOW_FIRST_BYTE
        final = (slow,) if number(slow) < self._rate(slow) else ()
        chance = number("final")
        for fault in FINAL[call.path]:
            chance -= self._rate(fault)
            if chance < 0:
                final = (*final, fault)
                break
        return [*failing, final] if final else list(failing)

    def for_keys(self, ordinal: int) -> Fault | None:
        """The fault that the n-th hand-out of keys meets."""
        chance = uniform(self._settings.seed, "keys", ordinal)
        for fault in KEY_FAULTS:
            chance -= self._rate(fault)
            if chance < 0:
                return fault
        return None

    def _rate(self, fault: Fault) -> float:
        return self._settings.rates.get(fault, 0.0)


class Ledger:
    """What went over the line, one JSON object a call, appended to a file.

    Fields: path, job, trajectory, turn, temperature, history (the assistant messages that the
    request carried), faults, status, delivered (what the policy said, None when no whole answer
    was sent), applied (True when the service acted on it).
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append an entry."""
        self._file.write(json.dumps(entry) + "\n")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one attempt comes to."""

    fault: Fault | None
    """The fault that it met, apart from being slow."""
    reply: Reply
    """The service's own answer, or the refusal."""
    sent: Reply | None
    """What goes out; None when it does not arrive whole."""
    applied: bool
    """True when the service acted on the call."""

    @property
    def message(self) -> dict[str, Any] | None:
        """What the policy said, when that arrives whole."""
        if self.sent is None or self.sent.status != 200 or self.fault is Fault.EMPTY_CHOICES:
            return None
        once = self.reply if self.fault is Fault.DUPLICATED_CHUNKS else self.sent
        return delivered_message(once)


@dataclass(slots=True)
class FaultLayer:
    """The ASGI application with faults in front of it."""

    app: ASGIApp
    settings: FaultSettings
    trajectories: Trajectories
    keys: KeyRing
    line: Line
    ledger: Ledger
    plan: FaultPlan
    key_calls: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's interface."""
        path = scope.get("path", "") if scope["type"] == "http" else ""
        if path == CREDENTIALS_PATH:
            await self._hand_out_keys(scope, receive, send)
        elif path in FAILING and scope["method"] == "POST":
            await self._runtime_call(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def outages(self) -> None:
        """Refuse connections for the share of the time that the settings say, for ever."""
        share = self.settings.rates.get(Fault.CONNECTION_REFUSED, 0.0)
        outage = {"path": "port", "faults": [Fault.CONNECTION_REFUSED]}
        await outages(
            self.line,
            share,
            self.settings.refused_s,
            self.settings.seed,
            lambda: self.ledger.write(outage),
        )

    async def _runtime_call(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await _body(receive)
        call = _read_call(scope, content)
        slow, fault = self._faults_of(call)
        if slow:
            await asyncio.sleep(self.settings.slow_s)
        answer = await self._answer(scope, content, call, fault)
        self.ledger.write(_entry(call, slow, answer))
        if answer.sent is not None:
            await _send(send, answer.sent)
        elif answer.fault is Fault.STREAM_CUT:
            await self._send_half(scope, receive, send, answer.reply)
        elif self.line.hang_up(scope.get("client")):
            await _gone(receive)

    async def _answer(
        self, scope: Scope, content: bytes, call: Call, fault: Fault | None
    ) -> _Answer:
        early = refusal(fault, self.settings) if fault else None
        if early is not None:
            return _Answer(fault, early, early, applied=False)
        reply = await self._service_reply(scope, content)
        if fault is None or reply.status != 200:
            return _Answer(None, reply, reply, applied=reply.status == 200)
        if fault in (Fault.STREAM_CUT, Fault.LOST_ACKNOWLEDGEMENT):
            return _Answer(fault, reply, None, applied=True)
        if fault is Fault.ALREADY_PROCESSED:
            return _Answer(fault, reply, processed(call.trajectory_id), applied=True)
        sent = defective(fault, reply)
        return _Answer(fault if sent else None, reply, sent or reply, applied=True)

    def _faults_of(self, call: Call) -> tuple[bool, Fault | None]:
        """Whether this attempt is slow, and what else it meets."""
        try:
            draw = self.trajectories.get(call.job_arn, call.trajectory_id).draw
        except ServiceError:
            return False, None
        faults = self.plan.next(call, draw)
        others = [fault for fault in faults if fault is not Fault.SLOW_FIRST_BYTE]
        return len(others) < len(faults), others[0] if others else None

    async def _service_reply(self, scope: Scope, content: bytes) -> Reply:
        """Let the service answer, and keep the answer."""
        sent: list[Message] = []
        request: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Message:
            if request:
                return request.pop()
            return await asyncio.Future()  # the client stays; a streamed answer cancels this

        async def keep(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, keep)
        head, *chunks = sent
        headers = tuple((name, value) for name, value in head["headers"])
        return Reply(head["status"], headers, b"".join(chunk.get("body", b"") for chunk in chunks))

    async def _send_half(self, scope: Scope, receive: Receive, send: Send, reply: Reply) -> None:
        await send(
            {"type": "http.response.start", "status": reply.status, "headers": reply.headers}
        )
        half = reply.body[: len(reply.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        if self.line.close(scope.get("client")):
            await _gone(receive)

    async def _hand_out_keys(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self.plan.for_keys(self.key_calls)
        self.key_calls += 1
        reply = await self._service_reply(scope, await _body(receive))
        if reply.status != 200:
            fault = None
        elif fault is Fault.CREDENTIALS_MISSING:
            reply = json_reply(200, {})
        elif fault is not None:
            key = json.loads(reply.body)
            if fault is Fault.CREDENTIALS_REVOKED:
                self.keys.revoke(key["AccessKeyId"], self.settings.revoked_after_s)
            else:
                soon = datetime.fromtimestamp(time.time() + ROTATING_LIFE_S, UTC)
                key["Expiration"] = min(key["Expiration"], soon.strftime("%Y-%m-%dT%H:%M:%SZ"))
                reply = json_reply(200, key)
        self.ledger.write({"path": CREDENTIALS_PATH, "faults": [fault] if fault else []})
        await _send(send, reply)


def _read_call(scope: Scope, content: bytes) -> Call:
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    fields = body if isinstance(body, dict) else {}
    return Call(
        scope["path"],
        str(fields.get("JobArn") or headers.get(JOB_HEADER.lower(), "")),
        str(fields.get("TrajectoryId") or headers.get(TRAJECTORY_HEADER.lower(), "")),
        fields,
    )


def _entry(call: Call, slow: bool, answer: _Answer) -> dict[str, Any]:
    faults = [Fault.SLOW_FIRST_BYTE] if slow else []
    return {
        "path": call.path,
        "job": call.job_arn,
        "trajectory": call.trajectory_id,
        "turn": call.turn,
        "temperature": call.body.get("temperature"),
        "history": [_said(m) for m in call.messages if m.get("role") == "assistant"],
        "faults": faults + ([answer.fault] if answer.fault else []),
        "status": answer.sent.status if answer.sent else None,
        "delivered": answer.message if call.path == CHAT else None,
        "applied": answer.applied,
        "rewards": call.body.get("Rewards"),
    }


def _said(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content)
    calls = [c.get("function", {}) for c in message.get("tool_calls", ())]
    return {"text": content, "calls": [[c.get("name"), c.get("arguments")] for c in calls]}


def with_faults(app: ASGIApp, service: Service, line: Line) -> FaultLayer:
    """A service's application behind the faults of its settings; keeps a ledger in its state."""
    settings = service.settings.faults
    return FaultLayer(
        app=app,
        settings=settings,
        trajectories=service.parts.trajectories,
        keys=service.keys,
        line=line,
        ledger=Ledger(service.settings.state / LEDGER_FILE),
        plan=FaultPlan(settings),
    )


async def _body(receive: Receive) -> bytes:
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


async def _send(send: Send, reply: Reply) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _gone(receive: Receive) -> None:
    """Wait until the server has noticed that the connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass
