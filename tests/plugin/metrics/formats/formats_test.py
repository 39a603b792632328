# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The formats of metrics, read by other implementations: Prometheus's Python client, and a
Prometheus that scrapes both."""

import contextlib
import http.server
import json
import math
import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

SAMPLE_METRICS = "tests/plugin/metrics/formats/sample_metrics"
PROMETHEUS = "/usr/bin/prometheus"
CONTENT_TYPES = {
    "text": "text/plain; version=0.0.4",
    "openmetrics": "application/openmetrics-text; version=1.0.0",
}
DEADLINE_S = 120
MAX_ERROR = 0.02
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"  # of sample_metrics


def key(name, labels):
    return name, tuple(sorted(labels.items()))


class Exporter:
    """Serves the bodies of a folder at /text and /openmetrics."""

    def __init__(self, folder):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.strip("/")
                with open(os.path.join(folder, name), "rb") as file:
                    body = file.read()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPES[name])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class FormatsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        subprocess.run([SAMPLE_METRICS, cls.folder], check=True)
        cls.durations_s = sorted(int(line) / 1e9 for line in cls.read("durations").splitlines())

    @classmethod
    def read(cls, name):
        with open(os.path.join(cls.folder, name), "rb") as file:
            return file.read()

    def quantile(self, q):
        return self.durations_s[max(math.ceil(q * len(self.durations_s)), 1) - 1]

    def read_by_client(self, name):
        """Samples of a text format, parsed by Python's client, by name and labels."""
        try:
            from prometheus_client import parser
            from prometheus_client.openmetrics import parser as openmetrics_parser
        except ImportError:
            self.skipTest("Debian's package python3-prometheus-client is not installed")
        parse = openmetrics_parser if name == "openmetrics" else parser
        families = parse.text_string_to_metric_families(self.read(name).decode())
        samples = [sample for family in families for sample in family.samples]
        return {key(sample.name, sample.labels): sample for sample in samples}

    def read_values(self, name):
        return {found: sample.value for found, sample in self.read_by_client(name).items()}

    def test_exemplars(self):
        found = [
            (sample.labels["le"], sample.exemplar.labels, sample.exemplar.value)
            for sample in self.read_by_client("openmetrics").values()
            if sample.exemplar
        ]
        self.assertEqual(found, [("0.0025", {"trace_id": TRACE_ID}, 0.002)])

    def test_both_texts_are_the_same_samples(self):
        samples = self.read_values("openmetrics")
        self.assertEqual(samples, self.read_values("text"))
        self.assertEqual(
            samples[key("thriftps_sample_requests_total", {"method": 'a"b\\c\nd', "code": "OK"})],
            12345
        )
        self.assertEqual(samples[key("thriftps_sample_waiting_seconds", {})], -1234.567890123)
        some = {"method": "some"}
        self.assertEqual(samples[key("thriftps_sample_duration_seconds_count", some)],
                         len(self.durations_s))
        self.assertAlmostEqual(
            samples[key("thriftps_sample_duration_seconds_sum", some)], sum(self.durations_s),
            places=6
        )
        for bound in (0.0001, 0.001, 0.01):
            n = samples[key("thriftps_sample_duration_seconds_bucket", {**some, "le": repr(bound)})]
            below = sum(d <= bound * (1 - MAX_ERROR) for d in self.durations_s)
            above = sum(d <= bound * (1 + MAX_ERROR) for d in self.durations_s)
            self.assertTrue(below <= n <= above, (bound, below, n, above))

    # ---- a Prometheus ------------------------------------------------------------------------

    @contextlib.contextmanager
    def prometheus(self, exporter):
        with socket.create_server(("127.0.0.1", 0)) as found:
            address = "127.0.0.1:%d" % found.getsockname()[1]
        jobs = [
            {"job_name": name, "metrics_path": "/" + name,
             "static_configs": [{"targets": [exporter.address]}]}
            for name in CONTENT_TYPES
        ]
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w") as file:  # JSON is YAML
            json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}, file)
        with open(os.path.join(self.folder, "log"), "w") as log:
            process = subprocess.Popen(
                [
                    PROMETHEUS,
                    "--config.file=" + config,
                    "--storage.tsdb.path=" + os.path.join(self.folder, "data"),
                    "--web.listen-address=" + address,
                    "--enable-feature=exemplar-storage",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            yield address
        finally:
            process.kill()
            process.wait()

    def query(self, address, expression):
        """The value of the only series, as soon as it exists."""
        url = "http://%s/api/v1/query?%s" % (address, urllib.parse.urlencode({"query": expression}))
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(url, timeout=10) as reply:
                    result = json.load(reply)["data"]["result"]
                if result:
                    self.assertEqual(len(result), 1)
                    return float(result[0]["value"][1])
            threading.Event().wait(0.2)  # only the next scrape can change the value
        self.fail("no answer to %s; the log:\n%s" % (expression, self.read("log").decode()))

    def test_prometheus_scrapes_all_formats(self):
        if not os.access(PROMETHEUS, os.X_OK):
            self.skipTest("Debian's package prometheus is not installed")
        exporter = Exporter(self.folder)
        self.addCleanup(exporter.close)
        with self.prometheus(exporter) as address:
            for job in CONTENT_TYPES:
                self.assertEqual(self.query(address, 'up{job="%s"} == 1' % job), 1)
                self.assertEqual(
                    self.query(address,
                               'thriftps_sample_requests_total{job="%s", code="OK"}' % job), 12345
                )
            for job in CONTENT_TYPES:
                count = self.query(address, 'thriftps_sample_duration_seconds_count{job="%s", '
                                            'method="some"}' % job)
                self.assertEqual(count, len(self.durations_s))
            self.check_stored_exemplars(address)

    def check_stored_exemplars(self, address):
        now = time.time()
        query = {
            "query": "thriftps_sample_duration_seconds_bucket",
            "start": now - 3600,
            "end": now + 3600,
        }
        selection = urllib.parse.urlencode(query)
        with urllib.request.urlopen(
            "http://%s/api/v1/query_exemplars?%s" % (address, selection), timeout=10
        ) as reply:
            series = json.load(reply)["data"]
        self.assertEqual([one["seriesLabels"]["job"] for one in series], ["openmetrics"])
        self.assertEqual(series[0]["exemplars"][0]["labels"], {"trace_id": TRACE_ID})


if __name__ == "__main__":
    unittest.main()
