# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The Python package against servers: tables, averages, models, rendezvous, durability, errors,
asyncio."""

import array
import asyncio
import gc
import itertools
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import unpacked_wheel  # noqa: F401, makes the next one importable
import junit
import numpy
from server_process import WAIT_S, Server

import thriftps

ROWS, DIM = 100, 4


def unix(folder, name="s"):
    return "unix:" + os.path.join(folder, name)


def find_inode(values):
    """Returns the inode of the file in which the array lies; 0: it lies in no file."""
    address = values.__array_interface__["data"][0]
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            extent, _, _, _, inode, *_ = line.split()
            begin, end = (int(bound, 16) for bound in extent.split("-"))
            if begin <= address < end:
                return int(inode)
    raise AssertionError("%#x is not mapped" % address)


class Sockets(unittest.TestCase):
    """One server over TCP and one on a Unix socket, for all cases. Each case uses table names of
    its own."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.servers = [Server("--ntrainer=2"), Server("--ntrainer=2", listen=unix(cls.folder.name))]
        cls.addresses = [server.address for server in cls.servers]
        cls.addClassCleanup(cls.folder.cleanup)
        for server in cls.servers:
            cls.addClassCleanup(server.__exit__)


class TableCalls(Sockets):

    def create(self, tables, name, **more):
        more = dict(dict(optimizer=thriftps.SGD(1.0), initializer=thriftps.Zeros()), **more)
        return tables.create(name, ROWS, DIM, **more)

    def test_rows_and_bags(self):
        for address in self.addresses:
            with thriftps.connect(address) as tables:
                table = self.create(tables, "rows")
                table.push([1, 2, 1], numpy.full((3, DIM), -1, "f"))
                self.assertEqual(table.lookup(array.array("i", [1])).tolist(), [[2.0] * DIM])
                rows = table.lookup(numpy.array([1, 2, 3], "i4"))
                self.assertEqual(rows.tolist(), [[2.0] * DIM, [1.0] * DIM, [0.0] * DIM])
                self.assertEqual(rows.dtype, numpy.float32)
                self.assertEqual(
                    table.lookup_bags([1, 2, 2], [0, 2]).tolist(), [[3.0] * DIM, [1.0] * DIM]
                )
                self.assertEqual(table.lookup_bags([1, 2], [0], "mean").tolist(), [[1.5] * DIM])
                self.assertEqual(
                    table.lookup_bags([2, 1, 3], [0, 3], "max").tolist(), [[2.0] * DIM, [0.0] * DIM]
                )
                self.assertEqual(
                    table.lookup_bags([1, 2], [0], weights=[0.5, 4.0]).tolist(), [[5.0] * DIM]
                )
                table.push_bags([5, 6], [0], [[-2.0] * DIM], "mean")
                self.assertEqual(table.lookup(range(5, 7)).tolist(), [[1.0] * DIM] * 2)

    def test_gradients_of_maxima(self):
        for address in self.addresses:
            with thriftps.connect(address) as tables:
                table = self.create(tables, "maxima")
                table.push([1, 2, 1], numpy.full((3, DIM), -1, "f"))
                bags = [2, 1, 3], [0, 3]
                pooled, maxima = table.lookup_maxima(*bags)
                self.assertEqual(pooled.tolist(), [[2.0] * DIM, [0.0] * DIM])
                self.assertEqual(maxima.tolist(), [[1] * DIM, [-1] * DIM])
                table.push([2], [[-9.0] * DIM])  # row 2 is the largest now
                table.push_bags(*bags, [[-1.0] * DIM] * 2, "max", maxima=maxima)
                self.assertEqual(table.lookup([1, 2]).tolist(), [[3.0] * DIM, [10.0] * DIM])
                table.push_bags(*bags, [[-1.0] * DIM] * 2, "max")
                self.assertEqual(table.lookup([1, 2]).tolist(), [[3.0] * DIM, [11.0] * DIM])
                for wrong in (maxima[:1], maxima + ROWS, maxima.astype("i4")):
                    with self.assertRaisesRegex(thriftps.InvalidArgument, "maxima"):
                        table.push_bags(*bags, [[-1.0] * DIM] * 2, "max", maxima=wrong)
                with self.assertRaisesRegex(thriftps.InvalidArgument, "only SUM takes weights"):
                    table.lookup_bags([1, 2], [0], "max", weights=[1.0, 2.0])

    def test_several_tables_in_one_call(self):
        for address in self.addresses:
            with thriftps.connect(address) as tables:
                a, b = self.create(tables, "a"), self.create(tables, "b", dtype="float16")
                bags = [thriftps.Bags("a", [1], [0]), thriftps.Bags(b, [2, 3], [0, 1], "mean")]
                tables.push_bags(
                    bags, [numpy.full((1, DIM), -1, "f"), numpy.full((2, DIM), -2, "f")]
                )
                first, second = tables.lookup_bags(bags)
                self.assertEqual(
                    (first.tolist(), second.tolist()), ([[1.0] * DIM], [[2.0] * DIM] * 2)
                )
                self.assertEqual(
                    (a.lookup([1]).dtype, b.lookup([2]).dtype), (numpy.float32, numpy.float16)
                )

    def test_bfloat16_rows(self):
        with thriftps.connect(self.addresses[1]) as tables:
            table = self.create(tables, "bf16", dtype="bfloat16")
            table.push([1], [[-1.0] * DIM])
            self.assertEqual(table.lookup([1]).view("<u2").tolist(), [[0x3F80] * DIM])

    def test_a_table_on_two_servers_is_that_on_one(self):
        ids, offsets = numpy.arange(ROWS), numpy.arange(0, ROWS, 5)
        gradient = numpy.arange(len(offsets) * DIM, dtype="f").reshape(-1, DIM)
        with thriftps.connect(*self.addresses, exact=True) as both, thriftps.connect(
            self.addresses[0]
        ) as one:
            pooled = []
            for tables, name in ((both, "dealt"), (one, "whole")):
                table = tables.create(
                    name,
                    ROWS,
                    DIM,
                    optimizer=thriftps.Adagrad(0.1),
                    initializer=thriftps.Normal(seed=7),
                )
                table.push_bags(ids, offsets, gradient, "mean")
                pooled.append(table.lookup_bags(ids, offsets))
            self.assertEqual(pooled[0].tobytes(), pooled[1].tobytes())
            both.drop("dealt")
            with self.assertRaises(thriftps.NotFound):
                one["dealt"].lookup([1])

    def test_large_answers_are_read_only_views_that_outlive_the_client(self):
        with thriftps.connect(self.addresses[1]) as tables:
            table = tables.create("large", 1 << 15, 16, initializer=thriftps.Uniform(seed=1))
            rows = table.lookup(numpy.arange(1 << 15))
            copy = rows.copy()
        del tables, table
        gc.collect()
        self.assertFalse(rows.flags.writeable)
        self.assertTrue(numpy.array_equal(rows, copy))

    def test_many_calls_in_flight_and_calls_that_nobody_waits_for(self):
        with thriftps.connect(self.addresses[1]) as tables:
            table = self.create(tables, "flight")
            for i in range(50):  # dropped at once, with their arguments
                table.push_async(numpy.array([i]), numpy.full((1, DIM), -1, "f"))
            gc.collect()
            done = threading.Event()
            with self.assertLogs("thriftps", "ERROR") as logged:
                failing = table.push_async([99], [[0.0] * DIM])
                failed = threading.Event()
                failing.add_done_callback(lambda call: failed.set() or 1 / 0)
                self.assertTrue(failed.wait(WAIT_S))
                table.push_async([99], [[0.0] * DIM]).add_done_callback(lambda call: done.set())
                self.assertTrue(done.wait(WAIT_S))
            self.assertIn("ZeroDivisionError", logged.output[0])
            done.clear()
            pushes = [table.push_async([50 + i], [[-1.0] * DIM]) for i in range(49)]
            pushes[-1].add_done_callback(lambda call: done.set())
            self.assertTrue(done.wait(WAIT_S))
            for push in pushes:
                self.assertIsNone(push.result(WAIT_S))
            while (
                table.lookup(range(99)).sum() != 99 * DIM
            ):  # the calls of the first loop continue
                pass

    def test_what_a_table_is(self):
        with thriftps.connect(self.addresses[0]) as tables:
            table = self.create(tables, "what", dtype="bfloat16")
            found = table.describe()
            self.assertEqual((found["rows"], found["dim"], found["dtype"]), (ROWS, DIM, "bfloat16"))
            self.assertEqual(found["rounding"], "nearest")
            self.assertEqual(found["optimizer"]["kind"], "SGD")
            self.assertIn("what", {each["name"] for each in tables.list()})
            self.assertEqual(repr(table), "<thriftps.Table: what on %s>" % self.addresses[0])
            self.assertIn("<td>bfloat16</td>", table._repr_html_())
            self.assertIn("NOT_FOUND", tables["nothing"]._repr_html_())

    def test_stochastic_rounding(self):
        with thriftps.connect(self.addresses[0]) as tables:
            table = tables.create("noisy", 1000, 4, dtype="bfloat16", rounding="stochastic",
                                  optimizer=thriftps.SGD(1.0), initializer=thriftps.Zeros(seed=3))
            self.assertEqual(table.describe()["rounding"], "stochastic")
            table.push(range(1000), numpy.full((1000, 4), -1 - 2**-8, "f"))
            bits = numpy.asarray(table.lookup(range(1000))).view("u2")
            self.assertEqual({int(each) for each in bits.flat}, {0x3F80, 0x3F81})
            with self.assertRaisesRegex(thriftps.InvalidArgument, "STOCHASTIC.*FLOAT32"):
                tables.create("exact", 5, 4, rounding="stochastic")
            with self.assertRaisesRegex(thriftps.InvalidArgument, "rounding is 'up'"):
                tables.create("exact", 5, 4, dtype="float16", rounding="up")

    def test_without_numpy(self):
        program = """if True:
            import sys
            sys.modules["numpy"] = None
            import array, thriftps
            with thriftps.connect(sys.argv[1]) as tables:
                table = tables.create("bare", 10, 2, optimizer=thriftps.SGD(1.0),
                                      initializer=thriftps.Zeros())
                table.push([1, 2], [[-1.0, -2.0], [-3.0, -4.0]])
                ones = memoryview(array.array("f", [-1, -1])).cast("B").cast("f", (1, 2))
                table.push(array.array("q", [1]), ones)
                rows = table.lookup((1, 2))
                print(rows.tolist(), rows.readonly, table.lookup([]).nbytes)
        """
        output = subprocess.run(
            [sys.executable, "-c", program, self.addresses[1]],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            env=dict(os.environ, PYTHONPATH=sys.path[0]),
        ).stdout
        self.assertEqual(output, "[[2.0, 3.0], [3.0, 4.0]] True 0\n")


class Errors(Sockets):

    def test_codes_and_messages(self):
        for address in self.addresses:
            with thriftps.connect(address) as tables:
                table = tables.create("errors", 5, DIM)
                with self.assertRaisesRegex(
                    thriftps.InvalidArgument, r"indices\[0\].*\[0, 5\)"
                ) as raised:
                    table.lookup([7])
                self.assertEqual(raised.exception.code, thriftps.ErrorCode.INVALID_ARGUMENT)
                self.assertIn("7", raised.exception.message)
                self.assertIsInstance(raised.exception, ValueError)
                with self.assertRaises(thriftps.NotFound):
                    tables["nothing"].lookup([1])
                with self.assertRaisesRegex(thriftps.AlreadyExists, "errors"):
                    tables.create("errors", 6, DIM)
                with self.assertRaisesRegex(thriftps.InvalidArgument, "'medium'.*'sum'"):
                    table.lookup_bags([1], [0], "medium")
                with self.assertRaisesRegex(thriftps.InvalidArgument, "offsets"):
                    table.lookup_bags([1, 2], [1])
                again = pickle.loads(pickle.dumps(raised.exception))
                self.assertEqual(
                    (str(again), type(again)), (str(raised.exception), thriftps.InvalidArgument)
                )

    def test_wrong_types_never_reach_the_wire(self):
        with thriftps.connect(self.addresses[0]) as tables:
            for ids in ([1.5], numpy.ones(2), "ab"):
                with self.subTest(ids=ids), self.assertRaises(TypeError):
                    tables["any"].lookup(ids)
            with self.assertRaises(TypeError):
                tables["any"].push([1], numpy.ones((1, 4), complex))

    def test_nobody_listens(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(thriftps.ThriftPSError) as raised:
                thriftps.connect(unix(folder), timeout=0.2)
            self.assertIn(
                raised.exception.code,
                (thriftps.ErrorCode.CONNECTION_LOST, thriftps.ErrorCode.DEADLINE_EXCEEDED),
            )
        with self.assertRaisesRegex(thriftps.InvalidArgument, "unix"):
            thriftps.Server("nonsense")

    def test_a_server_that_never_answers(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(folder, "s"))
            listener.listen()
            with thriftps.Server(unix(folder), timeout=0.1) as server:
                with self.assertRaises(TimeoutError) as raised:
                    server.describe()
            self.assertIsInstance(raised.exception, thriftps.DeadlineExceeded)
            with thriftps.Server(unix(folder)) as server:
                call = server.average_async(0, 0, 0, [1.0])
                self.assertFalse(call.done())
                with self.assertRaises(TimeoutError):
                    call.result(timeout=0.001)
                self.assertIn("in flight", repr(call))
            with self.assertRaises(thriftps.Aborted):  # aborted by close()
                call.result()
            with self.assertRaises(thriftps.Aborted):
                server.describe()

    def test_a_program_ends_with_calls_in_flight(self):
        begin = "import sys, thriftps; server = thriftps.Server(sys.argv[1]); "
        for end in (
            "held = server.average_async(0, 200, 0, [1.0])",
            "server.average_async(0, 200, 0, [1.0])",
            "server.average_async(0, 200, 0, [1.0]).add_done_callback(print)",
        ):
            for address in self.addresses:
                with self.subTest(end=end, address=address):
                    subprocess.run(
                        [sys.executable, "-c", begin + end, address],
                        check=True,
                        timeout=WAIT_S,
                        stdout=subprocess.DEVNULL,
                        env=dict(os.environ, PYTHONPATH=sys.path[0]),
                    )

    def test_a_child_does_not_use_what_its_parent_made(self):
        with thriftps.connect(self.addresses[1]) as tables:
            child = os.fork()
            if child == 0:
                try:
                    tables.list()
                except RuntimeError:
                    os._exit(0)
                os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            tables.list()


class Training(Sockets):

    def average(self, address, gradients, batch, **more):
        servers = [thriftps.Server(address) for _ in gradients]
        calls = [
            server.average_async(i, batch, 0, gradient, **more)
            for i, (server, gradient) in enumerate(zip(servers, gradients))
        ]
        return [call.result() for call in calls]

    def test_averages(self):
        for address in self.addresses:
            large = numpy.arange(1 << 20, dtype="f")
            for average in self.average(address, [large, large + 2], 1):
                self.assertTrue(numpy.array_equal(average, large + 1))
            a, _ = self.average(address, [numpy.array([1.0, 2.0]), numpy.array([3.0, 5.0])], 2)
            self.assertEqual((a.tolist(), a.dtype), ([2.0, 3.5], numpy.float64))
            one, _ = self.average(address, [None, [4.0]], 3)
            self.assertEqual(one.tolist(), [4.0])
            with self.assertRaisesRegex(thriftps.InvalidArgument, "weight is 0 for every trainer"):
                self.average(address, [None, None], 4)
            sparse, _ = self.average(
                address,
                [
                    thriftps.SparseGradient([1], [[2.0, 2.0]], 9),
                    thriftps.SparseGradient([8], [[4.0, 6.0]], 9),
                ],
                5,
            )
            self.assertEqual(
                (sparse.ids.tolist(), sparse.values.tolist(), sparse.rows),
                ([1, 8], [[1.0, 1.0], [2.0, 3.0]], 9),
            )
            with thriftps.Server(address) as server, self.assertRaises(thriftps.Stale):
                server.average(0, 0, 0, [1.0])

    def test_trainers_of_one_host_map_the_memory_of_their_average(self):
        """The first averages travel inline, until both clients have opened a segment."""
        gradient = numpy.ones(1 << 20, dtype="f")
        with tempfile.TemporaryDirectory() as folder, Server(
            "--ntrainer=2", listen=unix(folder)
        ) as server, thriftps.Server(server.address) as a, thriftps.Server(server.address) as b:
            deadline = time.monotonic() + WAIT_S
            for batch in itertools.count():
                calls = [each.average_async(i, batch, 0, gradient) for i, each in enumerate((a, b))]
                inodes = {find_inode(call.result()) for call in calls}
                if len(inodes) == 1 and inodes != {0}:
                    return
                self.assertLess(time.monotonic(), deadline, "the files are %s" % inodes)

    def test_a_model(self):
        for address in self.addresses:
            with thriftps.Server(address) as a, thriftps.Server(address) as b:
                with self.assertRaises(thriftps.NotFound):
                    a.model()
                for server in (a, b):
                    server.init_model({"w": numpy.ones((2, 3), "f"), "b": [0.0]}, thriftps.SGD(0.5))
                gradients = [numpy.full((2, 3), 2, "f"), [4.0]]
                first = a.update_async(0, gradients, version=1)
                version, parameters = b.update(1, gradients, version=1)
                self.assertEqual(first.result().version, version)
                self.assertEqual(version, 2)
                self.assertEqual(list(parameters), ["w", "b"])
                self.assertEqual(parameters["w"].tolist(), [[0.0] * 3] * 2)
                self.assertEqual(a.model().parameters["b"].tolist(), [-2.0])
                a.reset()

    def test_rendezvous(self):
        for address in self.addresses:
            with thriftps.Server(address) as a, thriftps.Server(address) as b:
                with self.assertRaises(thriftps.NotFound):
                    a.get("meet/key")
                waiting = threading.Thread(target=lambda: b.put("meet/key", b"\0value"))
                waiting.start()
                self.assertEqual(a.get("meet/key", wait=WAIT_S), b"\0value")
                waiting.join()
                self.assertEqual((a.add("meet/n", 3), b.add("meet/n", -1)), (3, 2))
                a.put("meet0", b"stays")
                a.remove("meet/")
                self.assertEqual(a.get("meet0"), b"stays")
                with self.assertRaises(thriftps.NotFound):
                    b.get("meet/key")

    def test_what_a_server_is(self):
        for address in self.addresses:
            with thriftps.Server(address) as server:
                info = server.describe()
                self.assertIn("EmbeddingTable", info["services"])
                self.assertEqual(
                    "max_shared_bytes" in info and info["max_shared_bytes"] > 0,
                    address.startswith("unix:"),
                )
                server.average_async(0, 10, 0, [1.0])
                server.average_async(1, 10, 0, [1.0]).result()
                self.assertTrue(all(each["count"] for each in server.metrics()))
                server.clear_metrics()
                self.assertEqual(server.metrics(), [])
                former = server.set_log_level("error,net=warning")
                self.assertEqual(server.set_log_level(former), "error,net=warning")
                self.assertEqual(server.forget_push_clients("nobody", idle=0), 0)
                with self.assertRaisesRegex(thriftps.InvalidArgument, "net=loud"):
                    server.set_log_level("net=loud")
                self.assertIn(address, server._repr_html_())


@unittest.skipIf(shutil.which("openssl") is None, "openssl is not installed")
class Encryption(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.make("ca")
        cls.make("server", "subjectAltName=IP:127.0.0.1")
        cls.make("elsewhere", "subjectAltName=DNS:elsewhere")
        cls.make("client")

    @classmethod
    def make(cls, name, *extensions):
        """NAME.pem and NAME.key: "ca" signs itself and the others."""
        command = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split()
        )
        command += ["-keyout", name + ".key", "-out", name + ".pem", "-subj", "/CN=" + name]
        if name != "ca":
            command += [
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ]
        for each in extensions:
            command += ["-addext", each]
        subprocess.run(command, check=True, cwd=cls.folder, stderr=subprocess.DEVNULL)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, name):
        return Server(
            "--tls=required",
            "--tls-cert=" + self.path(name + ".pem"),
            "--tls-key=" + self.path(name + ".key"),
            "--tls-ca=" + self.path("ca.pem"),
        )

    def test_both_sides_have_certificates(self):
        tls = thriftps.Tls(self.path("ca.pem"), self.path("client.pem"), self.path("client.key"))
        with self.start("server") as server:
            with thriftps.connect(server.address, tls=tls) as tables:
                self.assertEqual(tables.create("t", 10, 2).lookup([3]).shape, (1, 2))
            with thriftps.Server(server.address, tls=tls) as client:
                self.assertIn("EmbeddingTable", client.describe()["services"])
            for options in ({}, {"tls": thriftps.Tls(self.path("ca.pem"))}):
                with thriftps.Server(server.address, timeout=5, **options) as client:
                    with self.assertRaises(thriftps.ThriftPSError):
                        client.describe()
        with self.start("elsewhere") as server, thriftps.Server(server.address, tls=tls) as client:
            with self.assertRaises(thriftps.Unauthenticated):
                client.describe()

    def test_files_that_cannot_be_used(self):
        for files in (
            thriftps.Tls(self.path("nothing.pem")),
            thriftps.Tls(certificate=self.path("client.pem"), key=self.path("server.key")),
        ):
            with self.assertRaisesRegex(
                thriftps.InvalidArgument, "nothing.pem|client.pem|server.key"
            ):
                thriftps.Server("127.0.0.1:1", tls=files)


class Tokens(unittest.TestCase):

    def test_the_token_of_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            rules, tokens = (os.path.join(folder, name) for name in ("rules.json", "tokens"))
            made = subprocess.run(
                [os.environ["THRIFTPS_SERVER"], "--make-token=reader"],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            token, line = made.stdout.splitlines()
            with open(tokens, "w", encoding="ascii") as file:
                file.write(line)
            with open(rules, "w", encoding="ascii") as file:
                file.write('{"rules": [{"principals": ["token:reader"], "rights": ["read"]}]}')
            with Server("--access-file=" + rules, "--token-file=" + tokens) as server:
                with thriftps.Server(server.address) as client:
                    with self.assertRaises(thriftps.Unauthenticated):
                        client.describe()
                os.environ["THRIFTPS_TOKEN"] = token
                self.addCleanup(os.environ.pop, "THRIFTPS_TOKEN")
                with thriftps.Server(server.address) as client:
                    self.assertIn("EmbeddingTable", client.describe()["services"])
                os.environ["THRIFTPS_TOKEN"] = "tps_wrong"
                with thriftps.Server(server.address) as client:
                    with self.assertRaisesRegex(thriftps.Unauthenticated, "Session.authenticate"):
                        client.describe()


class Durable(unittest.TestCase):

    def test_log_snapshots_and_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--data-dir=" + os.path.join(folder, "data"), "--import-dir=" + folder]
            numpy.save(os.path.join(folder, "rows.npy"), numpy.ones((6, DIM), "f"))
            with Server(*flags, listen=unix(folder)) as process, thriftps.connect(
                process.address
            ) as tables, thriftps.Server(process.address) as server:
                table = tables.create(
                    "kept",
                    ROWS,
                    DIM,
                    optimizer=thriftps.SGD(1.0),
                    initializer=thriftps.Zeros(),
                    durability="commit",
                )
                table.push([3], [[-2.0] * DIM])
                lsn = server.flush()
                rows, lsns = server.lookup_with_lsns("kept", [3, 4])
                self.assertEqual((rows[0].tolist(), lsns[0]), ([2.0] * DIM, lsn))
                server.assign("kept", [3], [[9.0] * DIM], lsn=lsn - 1)  # the row is newer
                server.assign("kept", [4], [[9.0] * DIM], lsn=lsn)
                self.assertEqual(table.lookup([3, 4])[:, 0].tolist(), [2.0, 9.0])
                records, batch = server.read_log(1)
                self.assertEqual(len(records) > 0, True)
                self.assertEqual(batch["oldest_lsn"], 1)
                self.assertEqual(server.snapshot()["tables"], 1)
                self.assertEqual(server.import_table(["rows.npy"], "new", 6, DIM)["tables"], 2)
                with self.assertRaises(thriftps.AlreadyExists):
                    server.import_table(["rows.npy"], "new", 6, DIM)
                tables.drop("kept")
                server.restore(["data"], [{"name": "kept", "rows": ROWS, "dim": DIM}])
                with thriftps.connect(process.address) as later:
                    self.assertEqual(later["new"].lookup([5]).tolist(), [[1.0] * DIM])
                    self.assertEqual(later["kept"].lookup([4]).tolist(), [[9.0] * DIM])
                self.assertEqual(server.describe()["durability"]["phase"], "live")

    def test_pushes_go_on_over_a_restart(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--data-dir=" + os.path.join(folder, "data"), "--durability=commit"]
            address = unix(folder)
            first = Server(*flags, listen=address)
            with thriftps.connect(address) as tables:
                table = tables.create(
                    "kept", ROWS, DIM, optimizer=thriftps.SGD(1.0), initializer=thriftps.Zeros()
                )
                table.push([1], [[-1.0] * DIM])
                first.process.kill()
                first.process.wait(WAIT_S)
                first.process.stdout.close()
                push = table.push_async([1], [[-1.0] * DIM])
                with Server(*flags, listen=address):
                    push.result()
                    self.assertEqual(table.lookup([1]).tolist(), [[2.0] * DIM])


class Asyncio(Sockets):

    def test_await(self):
        async def work(address):
            with thriftps.connect(address) as tables:
                table = tables.create(
                    "await", ROWS, DIM, optimizer=thriftps.SGD(1.0), initializer=thriftps.Zeros()
                )
                await asyncio.gather(
                    *(
                        each
                        for each in [
                            self.as_task(table.push_async([i % 7], [[-1.0] * DIM]))
                            for i in range(200)
                        ]
                    )
                )
                rows = await table.lookup_async(range(7))
                self.assertEqual(rows.sum(), 200 * DIM)
                with self.assertRaises(thriftps.InvalidArgument):
                    await table.lookup_async([ROWS])
                call = table.lookup_async([1])
                self.assertIs(type(await call), type(await call))  # again, on a finished call

        for address in self.addresses:
            asyncio.run(work(address))

    @staticmethod
    async def as_task(call):
        return await call

    def test_a_cancelled_task_leaves_its_call_alone(self):
        async def work(address):
            with thriftps.Server(address) as server:
                task = asyncio.ensure_future(
                    self.as_task(server.average_async(0, 100, 0, numpy.ones(4)))
                )
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                average = await server.average_async(1, 100, 0, numpy.zeros(4))
                self.assertEqual(average.tolist(), [0.5] * 4)

        asyncio.run(work(self.addresses[1]))


if __name__ == "__main__":
    junit.main()
