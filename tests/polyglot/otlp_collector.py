# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A minimal collector of OTLP over HTTP."""

import http.server
import json
import queue
import threading

WAIT_S = 20


class Collector:
    """Stores the bodies of POST /v1/traces. The first replies are `answers`, each (status,
    headers); later replies are 200.

    A context manager.
    """

    def __init__(self, *answers):
        self.bodies = queue.Queue()  # of all requests, including refused ones
        self._answers = list(answers)
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers = collector._answers.pop(0) if collector._answers else (200, {})
                if self.path != "/v1/traces" or self.headers["Content-Type"] != "application/json":
                    status = 404
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")
                collector.bodies.put(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def take(self):
        """The next request, parsed."""
        return json.loads(self.bodies.get(timeout=WAIT_S))

    def take_spans(self, n):
        """The next `n` spans, from any number of requests."""
        spans = []
        while len(spans) < n:
            for resource in self.take()["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    spans.extend(scope["spans"])
        return spans

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
