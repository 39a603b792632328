# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench/metrics as users run it: all rows are present and free of errors."""

import os
import subprocess
import unittest


class MetricsTest(unittest.TestCase):
    def run_bench(self, *flags):
        return subprocess.run(
            [os.environ["METRICS_BENCH"], *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True
        )

    def test_rows(self):
        result = self.run_bench("--smoke", "--threads=3", "--series=500")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = [line.rsplit(None, 5) for line in result.stdout.splitlines()[1:]]
        self.assertEqual(
            [(name, unit, wrong) for name, _, _, _, unit, wrong in rows],
            [(name, "ns", "0")
             for name in ("counter", "histogram", "clock", "call", "lookup in a table")]
            + [("scrape " + name, "us", "0") for name in ("text", "openmetrics", "protobuf")],
        )
        for _, median, low, high, _, _ in rows:
            self.assertTrue(0 < float(low) <= float(median) <= float(high))

    def test_bad_flags_are_refused(self):
        self.assertEqual(self.run_bench("--threads=0").returncode, 2)
        self.assertEqual(self.run_bench("--no-such-flag").returncode, 2)


if __name__ == "__main__":
    unittest.main()
