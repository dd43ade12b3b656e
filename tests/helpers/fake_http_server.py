"""A tiny HTTP server with bad manners, for the tests of launching and stopping.

python fake_http_server.py PORT [late:SECONDS] [die:CODE] [ignore-term] [grandchild:PIDFILE] [stray:PIDFILE]
       [status:CODE]

PORT 0 is any free one; the address goes to stdout, as the reference server logs it.
"""

from __future__ import annotations

import http.server
import json
import pathlib
import signal
import subprocess
import sys
import time

SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
PORT = int(sys.argv[1])
MANNERS = dict(part.partition(":")[::2] for part in sys.argv[2:])

if "ignore-term" in MANNERS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for name, own_session in (("grandchild", False), ("stray", True)):
    if name in MANNERS:
        child = subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=own_session)
        pathlib.Path(MANNERS[name]).write_text(str(child.pid), encoding="ascii")
if "die" in MANNERS:
    print("no such checkpoint: hopeless", flush=True)
    sys.exit(int(MANNERS["die"]))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ready = time.monotonic() >= READY_AT
        found = self.path in ("/health", "/v1/models")
        body = json.dumps({"path": self.path, "ready": ready}).encode()
        self.send_response(int(MANNERS.get("status", 200 if ready else 503)) if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


READY_AT = time.monotonic() + float(MANNERS.get("late", 0))
server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
print(f"INFO listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
