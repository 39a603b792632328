# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench/python: its output and its JSON."""

import json
import os
import subprocess
import tempfile
import unittest

import junit

PROGRAM = os.path.abspath(os.environ["PYTHON_BENCH"])


class Python(unittest.TestCase):

    def test_a_small_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            text = subprocess.run(
                [PROGRAM, "--smoke", "--json=" + path],
                check=True,
                text=True,
                stdout=subprocess.PIPE,
            ).stdout
            with open(path, encoding="utf-8") as file:
                output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "python"))
        names = {figure["name"] for figure in output["figures"]}
        for operation in ("average", "lookup", "call"):
            systems = {", C", ", Python", ", Python's CPU"}
            self.assertLessEqual({operation + each for each in systems}, names)
        for figure in output["figures"]:
            self.assertIn("\n%s " % figure["name"], text)
            self.assertGreater(figure["p50"], 0)
            self.assertEqual(figure["wrong"], 0)
        for ratio in output["ratios"]:
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])


if __name__ == "__main__":
    junit.main()
