# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A server starts on data directories of an earlier version, with equal bits."""

import json
import os
import struct
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


class Refused(GoldenTest):
    """Records of other versions, which this one cannot apply."""

    def assert_refused(self, data, message):
        """The server exits with status 1. The tool proposes no cut, since the log is intact."""
        for command in (["THRIFTPS_SERVER", "--listen=127.0.0.1:0", "--data-dir=" + data],
                        ["THRIFTPS_LOG", "verify", os.path.join(data, "log")]):
            done = subprocess.run([os.path.abspath(os.environ[command[0]])] + command[1:],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=WAIT_S)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(message, done.stdout)
            self.assertNotIn("truncate", done.stdout)

    def test_the_gradient_of_a_maximum(self):
        """Only earlier versions apply it."""
        self.assert_refused(
            self.unpack("maxima"), "LSN %d: the record has a gradient of table maxima with pooling "
            "MAX, which only earlier versions apply" % EXPECTED["maxima"]["lsn"])

    def test_a_kind_of_a_later_version(self):
        data = self.unpack("log")
        segment = "%020d.log" % 1
        with open(os.path.join(data, "log", segment), "r+b") as file:
            at, lsn = make_later_record(file)
        self.assert_refused(
            data, "%s at %d: LSN %d: the record has kind 9 (remove_rows) and flags 0, which this "
            "version does not know: start the version that wrote the log, or a later one"
            % (segment, at, lsn))


def make_later_record(segment):
    """Gives the last record of the segment another kind; returns its offset and LSN."""
    data = bytearray(segment.read())
    at = max(i for i in range(0, len(data), 64) if data[i:i + 4] == b"TPSR" and data[i + 32] != 0)
    lsn, n_body = struct.unpack_from("<qQ", data, at + 8)
    body = memoryview(data)[at + 64:at + 64 + n_body]
    struct.pack_into("<H", data, at + 32, 9)
    struct.pack_into("<I12s", body, 0, 11, b"remove_rows")
    struct.pack_into("<I", data, at + 24, crc32c(body))
    struct.pack_into("<I", data, at + 4, 0)
    struct.pack_into("<I", data, at + 4, crc32c(data[at:at + 64]))
    segment.seek(0)
    segment.write(data)
    return at, lsn


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


if __name__ == "__main__":
    junit.main()
