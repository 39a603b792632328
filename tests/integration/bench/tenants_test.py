# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:tenants: its output and its JSON."""

import json
import os
import subprocess
import tempfile
import unittest

import junit

PROGRAM = os.path.abspath(os.environ["TENANTS_BENCH"])
CASES = ("alone", "beside a flood", "beside a flood with a limit")


class Tenants(unittest.TestCase):

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)

    def test_a_small_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            done = self.run_program("--smoke", "--limit=1000000", "--json=" + path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "tenants"))
        figures = {figure["name"]: figure for figure in output["figures"]}
        self.assertLessEqual({"lookup, " + case for case in CASES}, set(figures))
        for case in CASES:
            figure = figures["lookup, " + case]
            self.assertEqual(figure["n"], 50)
            self.assertGreater(figure["p99"], 0)
            self.assertIn("lookup, " + case, done.stdout)

    def test_bad_flags(self):
        done = self.run_program("--limit=0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--limit", done.stderr)


if __name__ == "__main__":
    junit.main()
