"""thriftps_top with a fake server of the test: in a terminal, in a pipe, and as JSON."""

import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest

PROGRAM = os.path.abspath("plugin/app/top/thriftps_top")
PATIENCE_S = 60
TOKEN = "a-secret-token"

STATUS = {
    "name": "server0",
    "version": "0.1.0",
    "state": "ready",
    "time_s": 100.0,
    "start_time_s": 10.0,
    "totals": {"connections": 12, "max_connections": 1024, "refused": 0, "in_flight": 7},
    "budgets": [{"name": "process", "held_bytes": 1024, "peak_bytes": 2048, "max_bytes": 4096}],
    "workers": {"threads": 2, "running": 1, "queued": 0, "queued_long": 0},
    "durability": None,
}


def make_sample(n):
    return {
        "time_s": 100.0 + n,
        "interval_s": 1.0,
        "calls": 1000 + n,
        "failures": 0,
        "received_bytes": 1,
        "sent_bytes": 2,
        "methods": [
            {"name": "Node:describe", "calls": 7, "failures": 0, "p50_ms": 0.5, "p99_ms": 2.0}
        ],
        "tables": [],
        "rounds": {"open": 0, "oldest_s": 0, "waiting": 0, "version": 0},
    }


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *arguments):
        pass

    def do_GET(self):
        server = self.server
        if server.token and self.headers["Authorization"] != "Bearer " + server.token:
            self.send_error(401)
        elif self.path == "/status":
            server.was_asked.set()
            server.has_status.wait()
            body = json.dumps(STATUS).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/events":
            self.send_events(server)
        else:
            self.send_error(404)

    def send_events(self, server):
        """As many samples as the test permits; the stream ends when the server closes."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.wfile.write(b'event: hello\ndata: {"name": "server0"}\n\n')
            while server.samples.acquire() and not server.is_closed:
                if server.ends_stream:
                    server.ends_stream = False
                    return
                server.n_sent += 1
                text = json.dumps(make_sample(server.n_sent))
                self.wfile.write(("id: 1\nevent: sample\ndata: %s\n\n" % text).encode())
        except OSError:
            pass  # the program has exited


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, n_samples=0, token=None, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.samples = threading.Semaphore(n_samples)
        self.n_sent, self.is_closed, self.token = 0, False, token
        self.ends_stream = False  # instead of the next sample
        self.was_asked = threading.Event()  # for /status
        self.has_status = threading.Event()  # replies of /status wait for it
        self.has_status.set()
        self.port = self.server_address[1]
        self.address = "127.0.0.1:%d" % self.port
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.is_closed = True
        self.has_status.set()
        for _ in range(100):
            self.samples.release()
        self.shutdown()
        self.server_close()


class Terminal:
    """The program with a terminal of its own."""

    def __init__(self, *arguments, columns=80, rows=24):
        self.master, slave = pty.openpty()
        self.resize_silently(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.text = ""
        self.process = subprocess.Popen(
            [PROGRAM, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=self.take_terminal,
        )

    def take_terminal(self):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize_silently(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        ready, _, _ = select.select([self.master], [], [], 1)
        if ready:
            try:
                self.text += os.read(self.master, 65536).decode()
            except OSError:
                return False
        return True

    def wait_for(self, text):
        """All output up to and including `text`, which is removed from the buffer."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.text and time.monotonic() < deadline:
            self.read()
        before, found, self.text = self.text.partition(text)
        assert found, "no %r in %r" % (text, before)
        return before + found

    def type(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """The exit status, after all output has been read."""
        while self.process.poll() is None:
            self.read()
        while select.select([self.master], [], [], 0)[0] and self.read():
            pass
        return self.process.returncode

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before and self.text.endswith(
            "\x1b[?25h\x1b[?1049l"
        )

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def run(*arguments):
    return subprocess.run(
        [PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


class TopTest(unittest.TestCase):
    def serve(self, *arguments, **options):
        server = Server(*arguments, **options)
        self.addCleanup(server.close)
        return server

    def open(self, *arguments, **options):
        terminal = Terminal(*arguments, **options)
        self.addCleanup(terminal.close)
        return terminal

    # ---- scripts ----

    def test_once_prints_one_interval_and_ends(self):
        done = run(self.serve(1).address, "--once")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "server0  ThriftPS 0.1.0  ready  up 00:01:30")
        self.assertEqual(lines[1], "calls 1.00k/s  failed 0/s  in 1 B/s  out 2 B/s")
        self.assertRegex(done.stdout, r"Node:describe +7 +0 +0\.500 +2\.00\n")
        self.assertRegex(done.stdout, r"process +1\.00 KiB +2\.00 KiB +4\.00 KiB +25%\n")
        self.assertNotIn("\x1b", done.stdout)

    def test_json_is_a_line_for_each_interval(self):
        server = self.serve(6)
        with subprocess.Popen(
            [PROGRAM, "http://%s/" % server.address, "--json", "--interval=3"],
            stdout=subprocess.PIPE,
            encoding="utf-8",
        ) as process:
            first = json.loads(process.stdout.readline())
            second = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertEqual(first["interval_s"], 3.0)
        self.assertAlmostEqual(first["calls_per_s"], 1002.0)
        self.assertEqual(first["methods"][0]["calls_per_s"], 7.0)
        self.assertEqual(first["status"]["totals"]["connections"], 12)
        self.assertAlmostEqual(second["calls_per_s"], 1005.0)

    def test_a_pipe_gets_plain_pages(self):
        server = self.serve(2)
        with subprocess.Popen(
            [PROGRAM, server.address], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        ) as process:
            text = b""
            while text.count(b"ThriftPS 0.1.0") < 2 or not text.endswith(b"\n\n"):
                piece = process.stdout.read1()
                self.assertTrue(piece, "the program has ended")
                text += piece
            process.terminate()
            self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertNotIn(b"\x1b", text)

    def test_a_script_is_told_that_there_is_no_server(self):
        server = Server(0)
        server.close()
        done = run(server.address, "--once")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^thriftps_top: http://127\.0\.0\.1:\d+: .*refused")

    def test_a_token_is_sent_and_never_printed(self):
        server = self.serve(2, token=TOKEN)
        done = run(server.address, "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn("status 401: Unauthorized", done.stderr)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(TOKEN + "\n")
            file.flush()
            done = run(server.address, "--once", "--token-file=" + file.name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(TOKEN, done.stdout + done.stderr)

    def test_bad_arguments_end_with_status_2(self):
        for arguments in (
            [],
            ["--once"],
            ["ftp://127.0.0.1:1"],
            ["http://"],
            ["127.0.0.1:1", "--interval=0"],
            ["127.0.0.1:1", "--token-file=/nowhere"],
            ["127.0.0.1:1", "more"],
        ):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, "^thriftps_top: .*\n$")
        self.assertIn("Usage: thriftps_top ADDRESS", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^thriftps_top \d")

    # ---- terminals ----

    def test_a_page_overwrites_the_one_before_and_q_restores_the_terminal(self):
        server = self.serve(0)
        terminal = self.open(server.address)
        self.assertTrue(terminal.wait_for("connecting to").startswith("\x1b[?1049h\x1b[?25l"))
        server.samples.release()
        terminal.wait_for("server0  ThriftPS 0.1.0  ready")
        server.samples.release()
        page = terminal.wait_for("\x1b[J")
        page = terminal.wait_for("\x1b[J")
        self.assertTrue(page.startswith("\x1b[H"))
        self.assertNotIn("\x1b[2J", page)
        self.assertIn("calls 1.00k/s", page)
        terminal.type("q")
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(terminal.is_restored(), repr(terminal.text[-100:]))

    def test_signals_restore_the_terminal(self):
        server = self.serve(0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                terminal = self.open(server.address)
                terminal.wait_for("connecting to")
                terminal.process.send_signal(number)
                self.assertEqual(terminal.end(), 0)
                self.assertTrue(terminal.is_restored())

    def test_a_page_follows_the_size_of_the_terminal(self):
        server = self.serve(1)
        terminal = self.open(server.address, columns=70, rows=10)
        terminal.wait_for("server0")
        page = terminal.wait_for("\x1b[J")
        self.assertLessEqual(page.count("\r\n"), 9)
        terminal.resize_silently(120, 5)
        terminal.process.send_signal(signal.SIGWINCH)
        page = terminal.wait_for("\x1b[J")
        self.assertLessEqual(page.count("\r\n"), 4)
        terminal.type("q")
        self.assertEqual(terminal.end(), 0)

    def test_a_server_that_goes_is_asked_again(self):
        server = Server(1)
        terminal = self.open(server.address)
        terminal.wait_for("server0")
        server.close()
        terminal.wait_for("trying again")
        again = self.serve(1, port=server.port)
        self.assertTrue(re.search(r"calls 1\.00k/s", terminal.wait_for("Node:describe")))
        self.assertEqual(again.n_sent, 1)
        terminal.type("q")
        self.assertEqual(terminal.end(), 0)

    def test_a_late_status_does_not_end_an_interval_of_the_next_stream(self):
        server = self.serve(0)
        terminal = self.open(server.address)
        terminal.wait_for("connecting to")
        server.has_status.clear()
        server.samples.release()
        self.assertTrue(server.was_asked.wait(PATIENCE_S))
        server.ends_stream = True
        server.samples.release()
        terminal.wait_for("trying again")
        server.has_status.set()
        server.samples.release()
        terminal.wait_for("server0")
        self.assertIn("calls 1.00k/s", terminal.wait_for("failed"))
        terminal.type("q")
        self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    unittest.main()
