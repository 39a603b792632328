# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The formats of metrics, read by another implementation: Prometheus's Python client."""

import os
import subprocess
import tempfile
import unittest

SAMPLE_METRICS = "tests/plugin/metrics/formats/sample_metrics"
MAX_ERROR = 0.02
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"  # of sample_metrics


def key(name, labels):
    return name, tuple(sorted(labels.items()))


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


if __name__ == "__main__":
    unittest.main()
