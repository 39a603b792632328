# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A fake of the server's HTTP part: the files of the console, and the replies of stand_in_data.

    stand_in.py FOLDER_OF_THE_CONSOLE [PORT]     serves until it is ended, to view the page
"""

import http.server
import json
import os
import sys
import threading
import urllib.parse

import stand_in_data as data

TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript",
         ".svg": "image/svg+xml"}
# The server's policy, see plugin/http/API.md.
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
N_PAST = 700  # seconds of samples at the start of a stream
PAGE = 300    # entries of a page of a list, fewer than there are in all


class StandIn(http.server.ThreadingHTTPServer):
    """Serves on a free port of this host from start to stop; also a context manager."""

    daemon_threads = True

    def __init__(self, folder, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.folder = folder
        self.token = None         # the required content of Authorization
        self.is_forbidden = False
        self.is_empty = False
        self.is_gone = False      # TRUE: connections are closed without a reply, and streams end
        self.is_stopped = False
        self.failing = set()      # paths that are answered with 503
        self.paths = []           # of all requests
        self.n_streams = 0        # the number of open streams
        self.elapsed_s = 3600
        self.changed = threading.Condition()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        threading.Thread(target=self.tick, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.set(is_gone=True, is_stopped=True)
        self.shutdown()
        self.server_close()

    def set(self, **state):
        with self.changed:
            for name, value in state.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def tick(self):
        with self.changed:
            while not self.changed.wait_for(lambda: self.is_stopped, timeout=1):
                self.elapsed_s += 1
                self.changed.notify_all()

    def handle_error(self, request, client_address):
        pass  # browsers may close connections at any time

    def answer(self, path, query):
        """The JSON of a path, None if there is none."""
        if self.is_empty and path in ("/tables", "/connections", "/rounds", "/slow", "/status"):
            return data.empty(path, self.elapsed_s)
        if path in ("/tables", "/connections"):
            return self.page(path[1:], query)
        answers = {"/rounds": data.rounds, "/slow": data.slow, "/status": data.status,
                   "/version": data.version, "/flags": lambda _: data.flags()}
        return answers[path](self.elapsed_s) if path in answers else None

    def page(self, key, query):
        all_entries = list(getattr(data, key)(self.elapsed_s))
        begin = int(query.get("after", ["0"])[0])
        end = begin + PAGE
        following = end if key == "connections" else str(end)
        return {"time_s": data.START_S + self.elapsed_s, "total": len(all_entries),
                "next": following if end < len(all_entries) else None, "bytes": 1 << 33,
                "max_bytes": 1 << 35, key: all_entries[begin:end]}


class Handler(http.server.BaseHTTPRequestHandler):

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        self.server.paths.append(path)
        if self.server.is_gone:
            self.close_connection = True
        elif path == "/" or path.startswith("/console/"):
            self.send_file(path)
        elif self.server.is_forbidden:
            self.send_failure(403, "the principal trainer-3 has not the right admin")
        elif self.server.token not in (None, self.sent_token()):
            self.send_failure(401, "there is no valid token")
        elif path in self.server.failing:
            self.send_failure(503, "too many connections")
        elif path == "/events":
            self.send_events()
        else:
            self.send_answer(self.server.answer(path, urllib.parse.parse_qs(query)))

    def sent_token(self):
        return (self.headers.get("Authorization") or "").partition("Bearer ")[2]

    def send_bytes(self, status, content_type, content, cache="no-store"):
        self.send_response(status)
        self.send_header("Content-Type", content_type + "; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", cache)
        self.end_headers()
        self.wfile.write(content)

    def send_failure(self, status, message):
        error = {"error": {"status": status, "message": message}}
        self.send_bytes(status, "application/json", json.dumps(error).encode())

    def send_answer(self, answer):
        if answer is None:
            self.send_failure(404, "there is no such path")
        else:
            self.send_bytes(200, "application/json", json.dumps(answer).encode())

    def send_file(self, path):
        name = "index.html" if path == "/" else path[len("/console/"):]
        try:
            with open(os.path.join(self.server.folder, name), "rb") as source:
                content = source.read()
        except OSError:
            self.send_failure(404, "there is no such file")
            return
        self.send_bytes(200, TYPES[os.path.splitext(name)[1]], content, cache="no-cache")

    def send_event(self, event, value, number=None):
        head = "id: %d\n" % number if number is not None else ""
        text = "%sevent: %s\ndata: %s\n\n" % (head, event, json.dumps(value))
        self.wfile.write(text.encode())

    def send_events(self):
        with self.server.changed:
            self.server.n_streams += 1
        try:
            self.stream_events(self.server)
        finally:
            with self.server.changed:
                self.server.n_streams -= 1

    def stream_events(self, server):
        """Past samples at once, then one per second."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.send_event("hello", data.HELLO)
        for second in range(server.elapsed_s - N_PAST, server.elapsed_s):
            if not 300 < server.elapsed_s - second < 340:  # simulates a gap
                self.send_event("sample", data.sample(second, second), second)
        with server.changed:
            sent_s = server.elapsed_s - 1
            while not server.is_gone:
                if server.elapsed_s > sent_s:
                    sent_s = server.elapsed_s
                    self.send_event("sample", data.sample(sent_s, sent_s), sent_s)
                server.changed.wait()


def main(folder, port="8080"):
    with StandIn(folder, int(port)) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
