# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a server. Each number that it stores must equal the server's."""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import junit
from http_client import HttpServer
from peers import Client
from server_process import WAIT_S
from thriftps.node import Node

N_CALLS = 25

CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: thriftps
    static_configs: [{targets: ["%s"]}]
"""


def take_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """A Prometheus that scrapes one address. A context manager."""

    def __init__(self, target):
        self._folder = tempfile.TemporaryDirectory()
        config = os.path.join(self._folder.name, "prometheus.yml")
        with open(config, "w") as file:
            file.write(CONFIG % target)
        self._url = "127.0.0.1:%d" % take_free_port()
        self._log = open(os.path.join(self._folder.name, "log"), "w+")
        self._process = subprocess.Popen(
            ["/usr/bin/prometheus", "--config.file=" + config, "--web.listen-address=" + self._url,
             "--storage.tsdb.path=" + os.path.join(self._folder.name, "data")],
            stdout=self._log, stderr=self._log)

    def query(self, text):
        """The result of an instant query: a list of samples; empty before there is a reply."""
        url = "http://%s/api/v1/query?query=%s" % (self._url, urllib.parse.quote(text))
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return json.load(answer)["data"]["result"]
        return []

    def wait_for(self, text, value):
        """Repeats the query until the only sample has that value."""
        deadline = time.monotonic() + WAIT_S
        found = None
        while time.monotonic() < deadline:
            found = self.query(text)
            if len(found) == 1 and float(found[0]["value"][1]) == value:
                return
        self._log.seek(0)
        raise AssertionError("%s is %r, not %r\n%s" % (text, found, value, self._log.read()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(WAIT_S)
        self._log.close()
        self._folder.cleanup()


class Scrapes(unittest.TestCase):

    def test_a_scrape(self):
        with HttpServer() as server, Client(server.address, Node) as node, \
                Prometheus(server.http) as prometheus:
            for _ in range(N_CALLS):
                node.describe()
            prometheus.wait_for("up", 1)
            prometheus.wait_for('thriftps_requests_total{method="Node:describe"}', N_CALLS)
            prometheus.wait_for("thriftps_connections", 1)
            prometheus.wait_for(
                'thriftps_request_duration_seconds_count{method="Node:describe"}', N_CALLS)
            median, = prometheus.query(
                'histogram_quantile(0.5, thriftps_request_duration_seconds_bucket'
                '{method="Node:describe"})')
            self.assertGreater(float(median["value"][1]), 0)


if __name__ == "__main__":
    junit.main()
