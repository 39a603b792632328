# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The console in headless Chromium, against thriftps_server."""

import tempfile
import threading
import unittest

import browser
import junit
import page_checks
from peers import Call, Client, Server, dense, tensor
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import TableSpec
from thriftps.parameter_server import ParameterServer
from thriftps.tensor.ttypes import DType, PushId, SparseTensor

N_TABLES = 40
ROWS = 1000
DIM = 8
VIEWS = ("overview", "methods", "tables", "rounds", "connections", "limits", "durability", "slow",
         "server")


@unittest.skipIf(browser.missing(), browser.missing())
class ConsoleOfServer(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = Server("--http=127.0.0.1:0", "--ntrainer=2", "--data-dir=" + folder.name)
        self.addCleanup(self.server.__exit__)
        self.url = self.server.process.stdout.readline().partition("listening on ")[2].strip()

    def fill_tables(self):
        with Client(self.server.address, EmbeddingTable) as calls:
            for i in range(N_TABLES):
                calls.create_table(TableSpec("words/%d" % i, ROWS, DIM, DType.FLOAT32))
                self.push(calls, i)

    def push(self, calls, i):
        rows = tensor([3, 7], dtype=DType.INT64)
        gradient = SparseTensor(rows, tensor([1] * 2 * DIM, [2, DIM]), [ROWS, DIM])
        calls.apply_row_gradients("words/%d" % i, gradient, PushId("console", i + 1))
        calls.lookup_rows("words/%d" % i, rows)

    def open(self, view):
        self.browser.open(self.url, view)
        self.browser.wait_for_text("live", "#link")

    def assert_no_complaints(self):
        checks = (page_checks.LOW_CONTRAST, page_checks.UNNAMED, page_checks.TOO_WIDE)
        self.assertEqual([self.browser.run(check) for check in checks], [[]] * len(checks))
        self.assertEqual(self.browser.take_errors(), [])

    def test_every_view_has_its_figures(self):
        self.fill_tables()
        words = {
            "overview": "Nothing needs attention.",
            "tables": "40 tables",
            "rounds": "No round is open.",
            "connections": "There are no connections.",
            "limits": "push windows",
            "durability": "Changes are written to the log.",
            "server": "--data-dir",
        }
        for view in VIEWS:
            with self.subTest(view=view):
                self.open(view)
                self.browser.wait_for_text(words.get(view, ""), "main")
                self.browser.wait("figures", lambda: "Loading" not in self.browser.text("main"))
                self.browser.save_screenshot("server-%s" % view)
                self.assert_no_complaints()

    def look_up(self, is_over):
        with Client(self.server.address, EmbeddingTable) as calls:
            while not is_over.wait(0.005):
                calls.lookup_rows("words/1", tensor([3, 7], dtype=DType.INT64))

    def test_calls_are_seen_live(self):
        self.open("methods")
        self.browser.wait_for_text("No method was called", "main")
        self.fill_tables()
        self.browser.wait_for_text("EmbeddingTable:apply_row_gradients", "main")
        is_over = threading.Event()
        lookups = Call(lambda: self.look_up(is_over))
        self.browser.run("location.hash = '#/overview'")
        self.browser.wait("latencies", lambda: "–" not in self.browser.text(".tiles"))
        self.browser.wait("drawn", lambda: not self.browser.run(page_checks.BLANK_CHARTS))
        self.browser.save_screenshot("server-overview-live")
        is_over.set()
        lookups.wait()
        self.assert_no_complaints()

    def test_a_missing_trainer_is_named(self):
        with Client(self.server.address, ParameterServer) as calls:
            waits = Call(lambda: calls.average_gradient(0, 1, 7, dense([1, 2])))
            self.open("rounds")
            self.browser.wait_for_text("batch 1, bucket 7", "main")
            self.browser.wait_for_text("1 of 2", "main")
            self.assertIn("1 round", self.browser.text(".stragglers"))
            self.browser.run("location.hash = '#/connections'")
            self.browser.wait_for_text("1 connection", "main")
            self.browser.wait_for_text("127.0.0.1:", ".grid")
            self.assert_no_complaints()
            with Client(self.server.address, ParameterServer) as others:
                others.average_gradient(1, 1, 7, dense([3, 4]))
            waits.wait()
        self.browser.run("location.hash = '#/rounds'")
        self.browser.wait_for_text("No round is open.", "main")

    def test_a_server_that_has_ended_is_told(self):
        self.open("overview")
        self.browser.wait_for_text("Calls", ".tiles")
        self.server.terminate()
        self.server.wait()
        self.browser.wait_for_text("Connection lost at ", "#banner")


if __name__ == "__main__":
    junit.main()
