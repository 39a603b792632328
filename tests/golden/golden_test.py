# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A server starts on data directories of an earlier version, with equal bits."""

import json
import os
import subprocess
import tarfile
import tempfile
import unittest

import junit
import workload
from peers import WAIT_S
from workload import GoldenServer

HERE = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HERE, "expected.json"), encoding="utf-8") as expected_file:
    EXPECTED = json.load(expected_file)


class GoldenTest(unittest.TestCase):

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.access = self.write("access", EXPECTED["access"])
        self.tokens = self.write("tokens", EXPECTED["tokens"] + "\n")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def unpack(self, name):
        with tarfile.open(os.path.join(HERE, name + ".tar.xz")) as archive:
            archive.extractall(self.folder)
        return os.path.join(self.folder, name)

    def start(self, data, *flags):
        return GoldenServer(data, self.access, self.tokens, *flags)

    def assert_tables(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for name in expected:
            for key, value in expected[name].items():
                read = found[name][key]
                if key == "spec":  # later versions may add fields
                    read = {field: read.get(field) for field in value}
                self.assertEqual(read, value, "%s of table %s" % (key, name))

    def assert_state(self, server, expected, phase, is_kept=lambda name: True):
        """`is_kept`: by the name of a table, whether its rows must be those that are expected."""
        found = workload.read_state(server, EXPECTED["token"], phase)
        self.assertEqual(list(found["tables"]), list(expected["tables"]))
        for key in expected:
            if key == "tables":
                self.assert_tables(*({name: table for name, table in tables.items()
                                      if is_kept(name)}
                                     for tables in (found[key], expected[key])))
            else:
                self.assertEqual(found[key], expected[key], key)


class Directories(GoldenTest):
    """Every later version must start on them."""

    def check_start(self, name, *flags):
        """The state, and the state after further changes, on the first and on later starts."""
        data, expected = self.unpack(name), EXPECTED[name]
        with self.start(data, *flags) as server:
            self.assert_state(server, expected["started"], 4)
        with self.start(data, *flags) as server:
            self.assert_state(server, expected["started"], 4, kept_by_restarts)
        return data

    def check_pushes(self, data, name):
        """Further changes, whose result also depends on the state of the optimizers."""
        pushed = EXPECTED[name]["pushed"]
        with self.start(data) as server:
            rows = {key: table["row_ids"] for key, table in pushed["tables"].items()}
            workload.push_phase(server, rows, 5)
            self.assert_state(server, pushed, 5, kept_by_restarts)
            server.kill()
        with self.start(data) as server:
            self.assert_state(server, pushed, 5, kept_by_restarts)
            server.durability.snapshot(True)
            server.durability.snapshot(False)
        with self.start(data) as server:
            self.assert_state(server, pushed, 5, kept_by_restarts)

    def test_snapshots_and_the_log_after_them(self):
        self.check_pushes(self.check_start("snapshots"), "snapshots")

    def test_the_log_of_a_killed_server(self):
        self.check_pushes(self.check_start("log"), "log")

    def test_a_new_directory_from_a_snapshot(self):
        """It has the newest snapshot: the rows that have not changed since then are as expected."""
        source, expected = self.unpack("snapshots"), EXPECTED["snapshots"]["started"]["tables"]
        newest = max(os.listdir(os.path.join(source, "snapshots")))
        lsn = int(newest.rpartition("-")[2])
        with self.start(os.path.join(self.folder, "new"), "--restore-from=" + source) as server:
            found = workload.read_tables(server.tables)
        self.assertEqual(list(found), list(expected))
        for name, table in expected.items():
            self.assertEqual([row if last <= lsn else None
                              for row, last in zip(found[name]["rows"], table["lsns"])],
                             [row if last <= lsn else None
                              for row, last in zip(table["rows"], table["lsns"])], name)

    def test_the_tools_read_them(self):
        for name in ("snapshots", "log"):
            data = self.unpack(name)
            verified = self.run_tool("THRIFTPS_LOG", "verify", os.path.join(data, "log"))
            self.assertIn(str(EXPECTED[name]["started"]["lsn"]), verified)
        shown = self.run_tool("THRIFTPS_SNAPSHOT", "show", os.path.join(self.folder, "snapshots"))
        for table in EXPECTED["snapshots"]["started"]["tables"]:
            self.assertIn(table, shown)

    def run_tool(self, program, *arguments):
        done = subprocess.run([os.path.abspath(os.environ[program]), *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout


def kept_by_restarts(name):
    return not any(spec.name == name and not workload.is_kept(spec)
                   for spec in workload.table_specs())


class Maxima(GoldenTest):
    """A record of a gradient of a maximum (Pooling.MAX), which only earlier servers applied."""

    def test_the_server_refuses_it_by_name(self):
        done = subprocess.run(
            [os.path.abspath(os.environ["THRIFTPS_SERVER"]), "--listen=127.0.0.1:0",
             "--data-dir=" + self.unpack("maxima")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT_S)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("LSN %d: the record has a gradient of table maxima with pooling MAX"
                      % EXPECTED["maxima"]["lsn"], done.stdout)

    def test_the_tool_names_it_and_proposes_no_cut(self):
        done = subprocess.run(
            [os.path.abspath(os.environ["THRIFTPS_LOG"]), "verify",
             os.path.join(self.unpack("maxima"), "log")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("with pooling MAX, which only earlier versions apply", done.stdout)
        self.assertNotIn("truncate", done.stdout)


if __name__ == "__main__":
    junit.main()
