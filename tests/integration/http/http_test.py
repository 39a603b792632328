# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The HTTP port of thriftps_server, with a client of the standard library: every path, the shapes
of all replies, and their contents while the server works."""

import contextlib
import os
import socket
import subprocess
import tempfile
import unittest

import junit
from http_client import Events, HttpServer
from peers import Client, Waiting, dense, sparse, tensor
from server_process import WAIT_S
from shapes import SHAPES, find_difference
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import TableSpec
from thriftps.node import Node
from thriftps.tensor.ttypes import DType

PATHS = [path for path in SHAPES if path.startswith("/")]


class Shapes(unittest.TestCase):

    def check(self, value, name):
        self.assertIsNone(find_difference(value, SHAPES[name], name))

    def test_every_path_of_a_new_server(self):
        with HttpServer() as server:
            for path in PATHS:
                self.check(server.get(path), path)
            listed = server.get("/")["paths"]
            self.assertEqual(sorted(set(PATHS) - set(listed)), ["/"])
            for path in listed:
                if path == "/events":
                    continue
                status, headers, body = server.request("HEAD", path)
                self.assertEqual((status, body), (200, b""), path)
                self.assertGreater(int(headers["Content-Length"]), 0)

    def test_every_path_of_a_server_with_everything(self):
        with tempfile.TemporaryDirectory() as folder, \
                HttpServer("--ntrainer=2",
                           "--data-dir=" + os.path.join(folder, "data")) as server, \
                Client(server.address, EmbeddingTable) as tables, \
                Waiting(server.address, 0, 7, 3, dense([1.0])):
            tables.create_table(TableSpec("users", 100, 4, DType.FLOAT32))
            for path in PATHS:
                self.check(server.get(path), path)
            status = server.get("/status")
            self.assertEqual(status["durability"]["phase"], "live")
            self.assertGreater(status["durability"]["end_lsn"], 0)

    def test_events(self):
        with HttpServer() as server, Client(server.address, Node) as node, \
                Events(server) as events:
            self.assertEqual(events.response.headers["Content-Type"], "text/event-stream")
            self.assertEqual(events.response.headers["Cache-Control"], "no-store")
            stream = iter(events)
            name, hello = next(stream)
            self.assertEqual(name, "hello")
            self.check(hello, "hello")
            for _ in range(20):
                node.describe()
            n_calls, latencies = 0, 0
            while n_calls < 20:  # the calls may be in two samples
                name, sample = next(stream)
                self.assertEqual(name, "sample")
                self.check(sample, "sample")
                n_calls += sample["calls"]
                if sample["calls"]:
                    method, = sample["methods"]
                    self.assertEqual(method["name"], "Node:describe")
                    self.assertEqual(method["calls"], sample["calls"])
                    self.assertGreater(method["p99_ms"], 0)
                    self.assertGreater(sample["received_bytes"], 0)
                latencies += sum(sample["latency"])
                self.assertEqual(len(sample["latency"]), len(hello["latency_bounds_us"]) + 1)
            self.assertEqual((n_calls, latencies), (20, 20))


class Reports(unittest.TestCase):

    def test_connections(self):
        with HttpServer() as server, Client(server.address, Node) as first, \
                Client(server.address, Node) as second:
            first.describe()
            second.describe()
            second.describe()
            page = server.get("/connections?limit=1")
            self.assertEqual(page["total"], 2)
            self.assertEqual(len(page["connections"]), 1)
            rest = server.get("/connections?limit=1000&after=%d" % page["next"])
            self.assertIsNone(rest["next"])
            connections = page["connections"] + rest["connections"]
            self.assertEqual([each["calls"] for each in connections], [1, 2])
            self.assertEqual([each["protocol"] for each in connections], ["binary"] * 2)

    def test_connection_of_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder, \
                HttpServer(listen="unix:" + os.path.join(folder, "ps")) as server, \
                Client(server.address, Node) as node:
            node.describe()
            connection, = server.get("/connections")["connections"]
            self.assertEqual(connection["transport"], "unix")
            self.assertEqual(connection["principal"], "uid:%d" % os.getuid())

    def test_tables(self):
        with HttpServer() as server, Client(server.address, EmbeddingTable) as tables:
            names = ["t%02d" % i for i in range(25)]
            for name in names:
                tables.create_table(TableSpec(name, 100, 4, DType.FLOAT32))
            found, after = [], ""
            for n_expected in (10, 10, 5):
                page = server.get("/tables?limit=10" + after)
                self.assertEqual((page["total"], len(page["tables"])), (25, n_expected))
                found += [table["name"] for table in page["tables"]]
                after = "&after=%s" % page["next"]
            self.assertEqual(found, names)
            self.assertIsNone(page["next"])
            self.assertEqual(page["tables"][0]["rows"], 100)

    def test_rounds_name_those_who_are_missing(self):
        with HttpServer("--ntrainer=4") as server, \
                Waiting(server.address, 1, 9, 0, dense([1.0])), \
                Waiting(server.address, 3, 9, 0, dense([1.0])), \
                Waiting(server.address, 3, 9, 1, dense([1.0])):
            rounds = server.get("/rounds")
            averaging = rounds["averaging"]
            self.assertEqual((averaging["trainers"], averaging["batch"]), (4, 9))
            self.assertEqual((averaging["open"], averaging["waiting"]), (2, 3))
            self.assertEqual([each["missing"] for each in averaging["rounds"]], [[0, 2], [0, 1, 2]])
            self.assertEqual([each["param_loc"] for each in averaging["rounds"]], [0, 1])
            self.assertEqual({each["trainer"]: each["rounds"] for each in rounds["stragglers"]},
                             {0: 2, 1: 1, 2: 2})

    def test_slow_calls_may_be_switched_off(self):
        for flags, is_enabled in ([], True), (["--slow-calls=0"], False):
            with self.subTest(flags), HttpServer(*flags) as server, \
                    Client(server.address, Node) as node:
                node.describe()
                slow = server.get("/slow")
                self.assertEqual((slow["is_enabled"], slow["calls"] != []),
                                 (is_enabled, is_enabled))

    def test_flags_say_where_values_come_from(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "config.json")
            with open(config, "w") as file:
                file.write('{"name": "from-file", "max_inflight": 7}')
            with HttpServer("--ntrainer=3", "--config=" + config, "--name=from-line") as server:
                flags = {flag["name"]: flag for flag in server.get("/flags")["flags"]}
        self.assertEqual((flags["ntrainer"]["value"], flags["ntrainer"]["origin"]),
                         ("3", "command line"))
        self.assertEqual((flags["max-inflight"]["value"], flags["max-inflight"]["origin"]),
                         ("7", "file"))
        self.assertEqual(flags["name"]["value"], "from-line")
        self.assertEqual((flags["workers"]["value"], flags["workers"]["origin"]), (None, "default"))
        self.assertEqual(flags["listen"]["value"], ["127.0.0.1:0"])

    def test_no_answer_has_a_secret(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = os.path.join(folder, "key"), os.path.join(folder, "certificate")
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "1", "-subj",
                 "/CN=localhost", "-keyout", key, "-out", certificate],
                check=True, capture_output=True)
            with open(key) as file:
                secret = file.read().splitlines()[1]
            with HttpServer("--tls=allowed", "--tls-cert=" + certificate,
                            "--tls-key=" + key) as server:
                flags = {flag["name"]: flag for flag in server.get("/flags")["flags"]}
                self.assertEqual(flags["tls-key"]["value"], key)
                for path in PATHS + ["/metrics"]:
                    self.assertNotIn(secret, server.request("GET", path)[2].decode(), path)

    def test_metrics_in_both_formats(self):
        with HttpServer() as server, Client(server.address, Node) as node:
            node.describe()
            _, headers, text = server.request("GET", "/metrics")
            self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
            self.assertIn(b'thriftps_requests_total{method="Node:describe"} 1\n', text)
            _, headers, text = server.request(
                "GET", "/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})
            self.assertTrue(headers["Content-Type"].startswith("application/openmetrics-text"))
            self.assertTrue(text.endswith(b"# EOF\n"))


def exchange(server, data):
    """The reply to these bytes."""
    host, port = server.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as peer:
        peer.sendall(data)
        return b"".join(iter(lambda: peer.recv(1 << 16), b""))


def peak_kib(server):
    """The largest memory of the process so far."""
    with open("/proc/%d/status" % server.process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


class HostilePeers(unittest.TestCase):

    # With one part of the response for each range, each of these requests took 60 MiB.
    def test_ranges_and_fields_take_no_memory(self):
        with HttpServer() as server:
            head = b"GET /console/styles/page.css HTTP/1.1\r\nHost: localhost\r\n"
            whole = exchange(server, head + b"\r\n")
            self.assertTrue(whole.startswith(b"HTTP/1.1 200"), whole)
            before = peak_kib(server)
            for field, status in ((b"Range: bytes=" + b"0-," * 2000 + b"0-", 200),
                                  (b"Range: bytes=" + b"0-," * 20000 + b"0-", 431),
                                  (b"a:\r\n" * 15000 + b"a:", 431)):
                for _ in range(4):
                    reply = exchange(server, head + field + b"\r\n\r\n")
                    self.assertTrue(reply.startswith(b"HTTP/1.1 %d" % status), reply[:100])
                    self.assertLess(len(reply), len(whole) + 1)
            self.assertLess(peak_kib(server) - before, 16 << 10)

    def test_idle_and_slow_peers_do_not_prevent_health_checks(self):
        with HttpServer() as server, contextlib.ExitStack() as stack:
            host, port = server.http.rsplit(":", 1)
            for i in range(200):
                peer = stack.enter_context(socket.create_connection((host, int(port)), WAIT_S))
                if i % 2 == 1:
                    peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
                self.assertEqual(server.get("/healthz")["status"], "alive")
            self.assertEqual(server.get("/readyz")["status"], "ready")


class Failures(unittest.TestCase):

    def test_errors_are_told(self):
        with HttpServer() as server:
            error = server.get("/nope", 404)["error"]
            self.assertEqual(error["status"], 404)
            self.assertIn("path", error["message"])
            self.assertIn("limit", server.get("/connections?limit=0", 400)["error"]["message"])
            status, headers, _ = server.request("POST", "/status",
                                                {"Content-Type": "application/json"}, "{}")
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
            self.assertEqual(server.request("GET", "/status", {"Host": "evil.example"})[0], 421)

    def test_other_names_of_the_host(self):
        with HttpServer("--http-host=ps0.example") as server:
            self.assertEqual(server.request("GET", "/status", {"Host": "ps0.example:1"})[0], 200)
            self.assertEqual(server.request("GET", "/status", {"Host": "ps1.example:1"})[0], 421)

    def test_other_hosts_are_not_served(self):
        for address in ("0.0.0.0:0", "[::]:0", "10.1.2.3:80", "unix:/tmp/ps"):
            done = subprocess.run(
                [os.environ["THRIFTPS_SERVER"], "--listen=127.0.0.1:0", "--http=" + address],
                capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--http=" + address, done.stderr)

    def test_a_token_opens_what_rules_say(self):
        made = subprocess.run([os.environ["THRIFTPS_SERVER"], "--make-token=monitor"],
                              check=True, capture_output=True, text=True)
        token, line = made.stdout.splitlines()
        with tempfile.TemporaryDirectory() as folder:
            tokens, rules = os.path.join(folder, "tokens"), os.path.join(folder, "rules")
            with open(tokens, "w") as file:
                file.write(line + "\n")
            with open(rules, "w") as file:
                file.write('{"rules": [{"principals": ["token:monitor"], "rights": ["admin"], '
                           '"methods": ["Http:status", "Http:metrics"]}]}')
            with HttpServer("--access-file=" + rules, "--token-file=" + tokens) as server:
                bearer = {"Authorization": "Bearer " + token}
                for path in ("/healthz", "/readyz", "/"):
                    self.assertEqual(server.request("GET", path)[0], 200, path)
                # Without the right, a client must not learn which paths exist.
                self.assertEqual(server.request("GET", "/nope")[0], 401)
                self.assertEqual(server.request("DELETE", "/status")[0], 401)
                self.assertEqual(server.request("GET", "/flags", bearer)[0], 403)
                self.assertEqual(server.request("GET", "/nope", bearer)[0], 403)
                for path in ("/status", "/metrics"):
                    denied, headers, _ = server.request("GET", path)
                    self.assertEqual((denied, headers["WWW-Authenticate"]), (401, "Bearer"), path)
                    status, _, body = server.request("GET", path, bearer)
                    self.assertEqual(status, 200, path)
                    self.assertNotIn(token.encode(), body)

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = subprocess.run(
                [os.environ["THRIFTPS_SERVER"], "--listen=127.0.0.1:0",
                 "--http=127.0.0.1:%d" % taken.getsockname()[1]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_a_server_that_recovers_is_not_ready(self):
        with tempfile.TemporaryDirectory() as folder:
            data = "--data-dir=" + os.path.join(folder, "data")
            with HttpServer(data) as server, Client(server.address, EmbeddingTable) as tables:
                tables.create_table(TableSpec("users", 100, 4, DType.FLOAT32))
                tables.apply_row_gradients(
                    "users", sparse([1], [1.0] * 4, 100, 4).sparse, None)
            gate = "--fault=read:delay=3000,on=.log"
            with HttpServer(data, "--enable-faults", gate) as server:
                seen = server.get("/readyz", 503)
                self.assertEqual(seen["reasons"], ["recovering"])
                self.assertEqual(server.get("/status")["state"], "not ready")
                while server.request("GET", "/readyz")[0] != 200:
                    pass
                with Client(server.address, EmbeddingTable) as tables:
                    self.assertEqual(
                        tables.lookup_rows("users", tensor([1], dtype=DType.INT64)).shape, [1, 4])


if __name__ == "__main__":
    junit.main()
