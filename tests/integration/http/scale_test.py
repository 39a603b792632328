# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Reports and metrics of a server with 1,000 tables and 200 connections: complete, well-formed, and
of a bounded size."""

import collections
import contextlib
import json
import re
import unittest

import junit
from http_client import HttpServer
from peers import Client, tensor
from shapes import SHAPES, find_difference
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import TableSpec
from thriftps.tensor.ttypes import DType

N_TABLES = 1000
N_MORE_TABLES = 25  # more than a family of metrics may have
N_CONNECTIONS = 200
ROWS = 4
NAMES = ["team-%d/words.%04d" % (i % 7, i) for i in range(N_TABLES + N_MORE_TABLES)]

MAX_ENTRY_BYTES = 1024  # limit of an entry of a list
MAX_SERIES = 1000  # limit of the series of a family
MAX_DURATION_SERIES = 201  # limit of a histogram by table, including "(other)"
MAX_METRICS_BYTES = 4 << 20

SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """An answer of /metrics, in one of the text formats."""

    def __init__(self, text):
        self.samples = collections.defaultdict(dict)  # by family, then by labels
        self.types = {}
        lines = text.splitlines()
        if lines[-1] == "# EOF":
            lines.pop()
        for line in lines:
            if line.startswith("# TYPE "):
                _, _, family, kind = line.split(" ")
                if family in self.types:
                    raise ValueError("%s: a second TYPE" % family)
                self.types[family] = kind
            elif not line.startswith(("# HELP ", "# UNIT ")):
                self.add(SAMPLE.fullmatch(line.partition(" # ")[0]), line)

    def add(self, match, line):
        if match is None:
            raise ValueError("%r: not a sample" % line)
        name, labels, value = match.groups()
        series = self.samples[name]
        if labels in series:
            raise ValueError("%r: the second sample of this series" % line)
        series[labels] = float(value)

    def by_label(self, name, label):
        return {dict(LABEL.findall(labels))[label]: value
                for labels, value in self.samples[name].items()}


class Scale(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.server = cls.stack.enter_context(HttpServer())
        clients = [cls.stack.enter_context(Client(cls.server.address, EmbeddingTable))
                   for _ in range(N_CONNECTIONS)]
        ids = tensor([0, 3, 3], dtype=DType.INT64)
        for i, name in enumerate(NAMES):
            client = clients[i % N_CONNECTIONS]
            client.create_table(TableSpec(name, ROWS, 2, DType.FLOAT32))
            client.lookup_rows(name, ids)

    def read_list(self, path, name, limit):
        """All entries, from pages of at most `limit`."""
        entries, after = [], ""
        while True:
            status, _, body = self.server.request("GET", "%s?limit=%d%s" % (path, limit, after))
            self.assertEqual(status, 200)
            page = json.loads(body)
            self.assertIsNone(find_difference(page, SHAPES[path], path))
            self.assertLessEqual(len(page[name]), limit)
            self.assertLess(len(body), (len(page[name]) + 1) * MAX_ENTRY_BYTES)
            entries += page[name]
            if page["next"] is None:
                return entries, page["total"]
            after = "&after=%s" % page["next"]

    def test_tables(self):
        for limit in (100, 1000, 10000):
            tables, total = self.read_list("/tables", "tables", limit)
            self.assertEqual([table["name"] for table in tables], sorted(NAMES))
            self.assertEqual(total, len(NAMES))
            self.assertEqual({table["rows"] for table in tables}, {ROWS})
            traffic = collections.Counter((table["lookups"], table["lookup_rows"])
                                          for table in tables)
            self.assertEqual(set(traffic), {(1, 3), (None, None)})
            self.assertGreaterEqual(traffic[1, 3], N_TABLES - 1)

    def test_connections(self):
        for limit in (7, 1000):
            connections, total = self.read_list("/connections", "connections", limit)
            self.assertEqual((len(connections), total), (N_CONNECTIONS, N_CONNECTIONS))
            ids = [connection["id"] for connection in connections]
            self.assertEqual(ids, sorted(set(ids)))
            self.assertEqual(sum(connection["calls"] for connection in connections),
                             2 * len(NAMES))

    def read_metrics(self, accept=None):
        status, _, body = self.server.request("GET", "/metrics", {"Accept": accept or "*/*"})
        self.assertEqual(status, 200)
        self.assertLess(len(body), MAX_METRICS_BYTES)
        return body.decode()

    def test_metrics(self):
        openmetrics = self.read_metrics("application/openmetrics-text; version=1.0.0")
        self.assertTrue(openmetrics.endswith("\n# EOF\n"))
        for text in (self.read_metrics(), openmetrics):
            metrics = Metrics(text)
            self.assertEqual(metrics.samples["thriftps_connections"], {None: N_CONNECTIONS})
            for name in ("rows", "lookups_total", "lookup_rows_total"):
                series = metrics.by_label("thriftps_table_" + name, "table")
                self.assertLessEqual(len(series), MAX_SERIES + 1)
                self.assertEqual(sum(series.values()),
                                 len(NAMES) * {"rows": ROWS, "lookups_total": 1}.get(name, 3))
                self.assertEqual(set(series) - set(NAMES), {"(other)"})
            durations = metrics.by_label("thriftps_table_lookup_duration_seconds_count", "table")
            self.assertLessEqual(len(durations), MAX_DURATION_SERIES)
            self.assertEqual(sum(durations.values()), len(NAMES))

    def test_other_paths(self):
        for path in ("/status", "/slow", "/rounds"):
            self.assertIsNone(find_difference(self.server.get(path), SHAPES[path], path))


if __name__ == "__main__":
    junit.main()
