"""A provider that does what a mock provider does not: cuts streams, says errors in a 200, speaks Gemini, counts connections."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handler = BaseHTTPRequestHandler
Act = Callable[[Handler], None]


class Provider:
    """Answers the first calls by a script and all further ones by its last act; remembers what came."""

    def __init__(self, *script: Act) -> None:
        self.script = list(script)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self.url = ""
        self.host = ""
        self._lock = threading.Lock()

    def next_act(self, path: str, headers: dict[str, str], body: bytes) -> Act:
        """Remembers a call; what is to be done with it."""
        with self._lock:
            self.requests.append((path, headers, body))
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def provider(*script: Act) -> Iterator[Provider]:
    """A provider on a free port."""
    made = Provider(*script)

    class Serve(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A small answer waits for nothing.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            act = made.next_act(self.path, headers, self.rfile.read(length))
            act(self)
            if not self.close_connection:
                self.wfile.flush()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def get_request(self) -> tuple[socket.socket, Any]:
            made.connections += 1
            return super().get_request()

        def handle_error(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Serve)
    made.host = f"127.0.0.1:{server.server_address[1]}"
    made.url = f"http://{made.host}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def answers(status: int, body: object, **headers: str) -> Act:
    """A whole answer."""

    def act(handler: Handler) -> None:
        data = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return act


def streams(*events: object, cut: bool = False, kind: str = "text/event-stream", hold: threading.Event | None = None) -> Act:
    """A stream of events; `cut` breaks the connection in its midst, `hold` keeps it open until that is set."""

    def act(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", kind)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for event in events:
            data = event if isinstance(event, bytes) else b"data: " + _text(event) + b"\n\n"
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            handler.wfile.flush()
        if hold is not None:
            hold.wait(20)
        if cut:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.wfile.write(b"0\r\n\r\n")

    return act


def _text(event: object) -> bytes:
    return event.encode() if isinstance(event, str) else json.dumps(event).encode()


def hangs(until: threading.Event) -> Act:
    """No answer, until it is set or the caller has long gone."""

    def act(handler: Handler) -> None:
        until.wait(20)
        handler.close_connection = True

    return act


def drops(handler: Handler) -> None:
    """Reads the call and closes the connection."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


CHAT = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
}
MESSAGE = {
    "id": "x",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
SLOW_DOWN = {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}


def chunk(text: str) -> dict[str, Any]:
    """An event of a streamed chat completion."""
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }
