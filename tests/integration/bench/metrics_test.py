# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench/metrics as users run it: all rows are present and free of errors."""

import json
import os
import subprocess
import tempfile
import unittest

import junit

PROGRAM = os.path.abspath(os.environ["METRICS_BENCH"])
OPERATIONS = ("counter", "histogram", "clock", "call", "lookup in a table")
SCRAPES = ("scrape text", "scrape openmetrics")


class Metrics(unittest.TestCase):

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)

    def test_a_small_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            done = self.run_program("--smoke", "--threads=3", "--series=500", "--json=" + path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "metrics"))
        figures = {figure["name"]: figure for figure in output["figures"]}
        self.assertEqual(list(figures), list(OPERATIONS + SCRAPES))
        for name, figure in figures.items():
            self.assertEqual(figure["unit"], "us" if name in SCRAPES else "ns")
            self.assertTrue(0 < figure["min"] <= figure["p50"] <= figure["max"], name)
            self.assertIn(name, done.stdout)

    def test_bad_flags(self):
        for flag in ("--threads=0", "--series=-1", "--no-such-flag"):
            done = self.run_program(flag)
            self.assertEqual(done.returncode, 2)
            self.assertIn(flag.split("=")[0], done.stderr)


if __name__ == "__main__":
    junit.main()
