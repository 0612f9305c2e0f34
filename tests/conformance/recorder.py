"""A job runtime that says yes and writes down every byte it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNKS = (
    {"delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None},
    {"delta": {}, "finish_reason": "stop"},
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Recorder:
    """The requests so far, and where they go."""

    url: str = ""
    requests: list[Recorded] = field(default_factory=list)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Serve for the length of the block."""
    recorder = Recorder()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            recorder.requests.append(Recorded("POST", self.path, headers, body))
            chat = self.path.endswith("/chat/completions")
            content = _stream() if chat else b"{}"
            self.send_response(200)
            kind = "text/event-stream" if chat else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing to the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorder.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()


def _stream() -> bytes:
    events = [
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "default",
            "choices": [{"index": 0, **chunk}],
        }
        for chunk in CHUNKS
    ]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()
