# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:operations: its output and its JSON."""

import json
import os
import subprocess
import tempfile
import unittest

import junit

PROGRAM = os.path.abspath(os.environ["OPERATIONS_BENCH"])
CASES = ("all off", "all on", "all on, scraped")
ROWS = ("1 client", "3 clients")


class Operations(unittest.TestCase):

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)

    def test_a_small_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            done = self.run_program("--smoke", "--clients=3", "--scrape-ms=5", "--json=" + path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "operations"))
        figures = {figure["name"]: figure for figure in output["figures"]}
        for name in ("%s, %s" % (case, row) for case in CASES for row in ROWS):
            self.assertGreater(figures[name]["p50"], 0)
            self.assertGreaterEqual(figures[name + " latency"]["n"], 399)
            self.assertIn(name, done.stdout)
        self.assertGreaterEqual(figures["all on, scraped, 1 client scrape"]["n"], 1)
        self.assertRegex(done.stdout, r"series of a scrape: [1-9]\d\d+; ")

    def test_bad_flags(self):
        done = self.run_program("--sampling=-1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--sampling", done.stderr)


if __name__ == "__main__":
    junit.main()
