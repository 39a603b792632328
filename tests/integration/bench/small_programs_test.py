# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench/{metrics,operations,tenants,python} as users run them: their output and their JSON."""

import os

import junit
import launcher

SCRAPES = ("scrape text", "scrape openmetrics")
TENANTS = ("alone", "beside a flood", "beside a flood with a limit")


class Programs(launcher.TestCase):

    def run_program(self, name, *flags):
        """The output of a run and its figures by name."""
        self.program = os.path.abspath(os.environ[name.upper()])
        output = self.run_to_json("--smoke", *flags)
        self.assertEqual((output["schema"], output["benchmark"]), (1, name))
        self.output = output
        return self.said, {figure["name"]: figure for figure in output["figures"]}

    def run_well(self, *flags, **environment):
        result = super().run_well(*flags, **environment)
        self.said = result.stdout
        return result

    def test_metrics(self):
        text, figures = self.run_program("metrics", "--threads=3", "--series=500")
        self.assertEqual(list(figures), ["counter", "histogram", "clock", "call",
                                         "lookup in a table", *SCRAPES])
        for name, figure in figures.items():
            self.assertEqual(figure["unit"], "us" if name in SCRAPES else "ns")
            self.assertTrue(0 < figure["min"] <= figure["p50"] <= figure["max"], name)
            self.assertIn(name, text)

    def test_operations(self):
        text, figures = self.run_program("operations", "--clients=3", "--scrape-ms=5")
        for case in ("all off", "all on", "all on, scraped"):
            for row in ("1 client", "3 clients"):
                name = "%s, %s" % (case, row)
                self.assertGreater(figures[name]["p50"], 0)
                self.assertGreaterEqual(figures[name + " latency"]["n"], 399)
                self.assertIn(name, text)
        self.assertGreaterEqual(figures["all on, scraped, 1 client scrape"]["n"], 1)
        self.assertRegex(text, r"series of a scrape: [1-9]\d\d+; ")

    def test_tenants(self):
        text, figures = self.run_program("tenants", "--limit=1000000")
        for case in TENANTS:
            figure = figures["lookup, " + case]
            self.assertEqual(figure["n"], 50)
            self.assertGreater(figure["p99"], 0)
            self.assertIn("lookup, " + case, text)

    def test_python(self):
        text, figures = self.run_program("python")
        for operation in ("average", "lookup", "call"):
            systems = {", C", ", Python", ", Python's CPU"}
            self.assertLessEqual({operation + each for each in systems}, set(figures))
        for name, figure in figures.items():
            self.assertIn("\n%s " % name, text)
            self.assertGreater(figure["p50"], 0)
            self.assertEqual(figure["wrong"], 0)
        for ratio in self.output["ratios"]:
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])

    def test_bad_flags(self):
        for name, flag in (("metrics", "--threads=0"), ("metrics", "--series=-1"),
                           ("metrics", "--no-such-flag"), ("operations", "--sampling=-1"),
                           ("tenants", "--limit=0")):
            self.program = os.path.abspath(os.environ[name.upper()])
            self.assert_bad_flag(flag)


if __name__ == "__main__":
    junit.main()
