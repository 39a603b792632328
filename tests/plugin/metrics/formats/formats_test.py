# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The formats of metrics, read by other implementations: Prometheus's Python client, protobuf's own
decoder with a descriptor of the published message, and a Prometheus that scrapes all three."""

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
    "protobuf": "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
                "encoding=delimited",
}
DEADLINE_S = 120
MAX_ERROR = 0.02
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"  # of sample_metrics

# The messages of io.prometheus.client (client_model/io/prometheus/client/metrics.proto). Each field
# has a name, a number, a type, and TRUE if it is repeated. A type in capitals is a message.
MESSAGES = {
    "LabelPair": [("name", 1, "string", 0), ("value", 2, "string", 0)],
    "Gauge": [("value", 1, "double", 0)],
    "Counter": [("value", 1, "double", 0)],
    "Bucket": [("cumulative_count", 1, "uint64", 0), ("upper_bound", 2, "double", 0)],
    "BucketSpan": [("offset", 1, "sint32", 0), ("length", 2, "uint32", 0)],
    "Histogram": [
        ("sample_count", 1, "uint64", 0),
        ("sample_sum", 2, "double", 0),
        ("bucket", 3, "Bucket", 1),
        ("schema", 5, "sint32", 0),
        ("zero_threshold", 6, "double", 0),
        ("zero_count", 7, "uint64", 0),
        ("positive_span", 12, "BucketSpan", 1),
        ("positive_delta", 13, "sint64", 1),
    ],
    "Metric": [
        ("label", 1, "LabelPair", 1),
        ("gauge", 2, "Gauge", 0),
        ("counter", 3, "Counter", 0),
        ("histogram", 7, "Histogram", 0),
    ],
    "MetricFamily": [
        ("name", 1, "string", 0),
        ("help", 2, "string", 0),
        ("type", 3, "int32", 0),
        ("metric", 4, "Metric", 1),
    ],
}


def make_family_class():
    """The class of MetricFamily."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="io.prometheus.client",
                                              syntax="proto2")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, number, kind, is_repeated in fields:
            field = described.field.add(name=name, number=number, label=3 if is_repeated else 1)
            if kind[0].isupper():
                field.type = field.TYPE_MESSAGE
                field.type_name = ".io.prometheus.client." + kind
            else:
                field.type = getattr(field, "TYPE_" + kind.upper())
                # Decoders accept packed and unpacked fields. This is the form that the server
                # encodes.
                field.options.packed = bool(is_repeated)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(
        pool.FindMessageTypeByName("io.prometheus.client.MetricFamily")
    )


def split_delimited(data):
    """The messages of a stream, each preceded by its length."""
    while data:
        length, shift, n = 0, 0, 0
        while True:
            length |= (data[n] & 127) << shift
            shift += 7
            n += 1
            if data[n - 1] < 128:
                break
        yield data[n : n + length]
        data = data[n + length :]


def key(name, labels):
    return name, tuple(sorted(labels.items()))


class Exporter:
    """Serves the bodies of a folder at /text, /openmetrics and /protobuf."""

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

    def test_protobuf_is_the_same_too(self):
        try:
            family_class = make_family_class()
        except ImportError:
            self.skipTest("Debian's package python3-protobuf is not installed")
        families = {}
        for data in split_delimited(self.read("protobuf")):
            family = family_class.FromString(data)
            self.assertEqual(family.SerializeToString(), data, "nothing unknown, and nothing twice")
            families[family.name] = family
        requests = families["thriftps_sample_requests_total"].metric[0]
        self.assertEqual(requests.counter.value, 12345)
        self.assertEqual([(label.name, label.value) for label in requests.label],
                         [("method", 'a"b\\c\nd'), ("code", "OK")])
        self.assertEqual(families["thriftps_sample_held_bytes"].metric[0].gauge.value, 2**52)
        empty, some = (metric.histogram
                       for metric in families["thriftps_sample_duration_seconds"].metric)
        self.assertEqual([(span.offset, span.length) for span in empty.positive_span], [(0, 0)])
        self.assertEqual(some.sample_count, len(self.durations_s))
        self.check_native(some)

    def check_native(self, histogram):
        buckets, number, count = {}, 0, 0
        deltas = iter(histogram.positive_delta)
        for span in histogram.positive_span:
            number += span.offset
            for _ in range(span.length):
                count += next(deltas)
                buckets[number] = count
                number += 1
        self.assertIsNone(next(deltas, None))
        base = 2 ** (2**-histogram.schema)
        for number, count in buckets.items():
            self.assertEqual(count, sum(base ** (number - 1) < d <= base**number
                                        for d in self.durations_s), number)
        self.assertEqual(sum(buckets.values()), histogram.sample_count)

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
                    "--enable-feature=native-histograms,exemplar-storage",
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
            for q in (0.1, 0.5, 0.9, 0.99):
                native = self.query(
                    address,
                    'histogram_quantile(%g, thriftps_sample_duration_seconds{job="protobuf", '
                    'method="some"})' % q,
                )
                self.assertAlmostEqual(native / self.quantile(q), 1, delta=MAX_ERROR)
            for job in ("text", "openmetrics"):
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
