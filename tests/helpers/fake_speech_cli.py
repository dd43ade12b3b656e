"""In the place of ``vllm`` and ``sgl-omni``: a speech server without a model, started with their words.

FAKE_MANNERS, words apart by spaces: die:CODE (at start), die-at:N (at the N-th request), ignore-term, never-ready,
stray (a child with a session of its own), orphan (another one, without a parent and without an environment),
one-piece (does not stream), unseeded (the same seed speaks twice in different ways), no-audio.
FAKE_LAST_WORDS: what it prints when it dies at a request.
FAKE_PIDS: a folder in which every process of it leaves a file named after its process id.
"""

from __future__ import annotations

import http.server
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

MANNERS = dict(part.partition(":")[::2] for part in os.environ.get("FAKE_MANNERS", "").split())
PIDS = pathlib.Path(os.environ["FAKE_PIDS"])
WORDS = dict(zip(sys.argv, sys.argv[1:], strict=False))
MODEL = WORDS["--model-path"] if "--model-path" in WORDS else sys.argv[2]
SLEEPER = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({folder!r}, str(os.getpid())).touch()
time.sleep(600)
"""


def leave(pid: int) -> None:
    (PIDS / str(pid)).touch()


def start_child(orphan: bool) -> None:
    code = SLEEPER.format(folder=str(PIDS))
    before = len(list(PIDS.iterdir()))
    if orphan:
        start = f"subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True, env={{}})"
        start = f"import subprocess, sys; {start}"
        subprocess.run([sys.executable, "-c", start], check=True)
    else:
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    while len(list(PIDS.iterdir())) == before:
        time.sleep(0.01)


leave(os.getpid())
if "ignore-term" in MANNERS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for name in ("stray", "orphan"):
    if name in MANNERS:
        start_child(orphan=name == "orphan")
if "die" in MANNERS:
    print("no kernel image is available for execution on the device", flush=True)
    os._exit(int(MANNERS["die"]))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests = 0

    def do_GET(self) -> None:
        answers = {
            "/health": {},
            "/version": {"version": "0.30.1"},
            "/v1/models": {"data": [{"id": MODEL, "object": "model"}]},
        }
        if self.path == "/metrics":
            self.answer(200, f"# TYPE fake_requests_total counter\nfake_requests_total {Handler.requests}\n".encode())
        elif self.path not in answers:
            self.answer(404, b"{}")
        else:
            self.answer(503 if "never-ready" in MANNERS else 200, json.dumps(answers[self.path]).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Handler.requests += 1
        if Handler.requests == int(MANNERS.get("die-at", 0)):
            print(os.environ.get("FAKE_LAST_WORDS", "CUDA error: an illegal memory access was encountered"), flush=True)
            os._exit(1)
        pitch = 0.05 + 0.001 * ((body.get("seed") or 0) % 50) + ("unseeded" in MANNERS) * 0.01 * Handler.requests
        length = 0 if "no-audio" in MANNERS else 24000 * len(body["input"]) // 14
        samples = b"".join(struct.pack("<h", round(8000 * math.sin(pitch * i))) for i in range(length))
        self.send_response(200)
        self.send_header("Content-Type", "audio/pcm;rate=24000")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        cut = len(samples) // 8 * 2
        if "one-piece" in MANNERS:
            time.sleep(0.2)
        for piece in (samples,) if "one-piece" in MANNERS else (samples[:cut], samples[cut:]):
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
                time.sleep(0.05)
        self.wfile.write(b"0\r\n\r\n")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


print("words:", *sys.argv[1:], "devices:", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
http.server.ThreadingHTTPServer.daemon_threads = True
http.server.ThreadingHTTPServer((WORDS["--host"], int(WORDS["--port"])), Handler).serve_forever()
