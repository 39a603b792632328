# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:all_reduce: its output and its JSON; no process or file remains."""

import json
import os

import junit
import launcher

SIZES = ["all-reduce 4 KiB", "all-reduce 64 KiB", "all-reduce 1 MiB"]
OURS = ["in place", "shared memory"]
WAYS = OURS + ["tcp"]


class AllReduce(launcher.TestCase):
    program = os.path.abspath(os.environ["ALL_REDUCE"])

    def measure(self, *flags):
        """The JSON of a small run, whose table has the same rows."""
        result = self.run_well("--smoke", "--json=out.json", *flags)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "all_reduce"))
        for figure in output["peers"][0]["figures"]:
            self.assertIn("\n" + figure["name"] + " ", result.stdout)
        for figure in output["figures"]:
            self.assertGreater(figure["p50"], 0)
        for ratio in output["ratios"]:
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])
        return output

    def test_both_ways_stand_next_to_the_limit(self):
        output = self.measure("--repeats=2", "--ranks=3")
        self.assertEqual([figure["name"] for figure in output["figures"]],
                         [size + " " + way for size in SIZES for way in WAYS])
        self.assertEqual({figure["n"] for figure in output["figures"]}, {2})
        self.assertEqual([peer["name"] for peer in output["peers"]], ["memory"])
        self.assertEqual([ratio["name"] for ratio in output["ratios"]],
                         [f"{size} {way} / {other}" for size in SIZES for way in OURS
                          for other in ("tcp", "memory")])

    def test_pytorch_sums_up_the_same(self):
        output = self.measure("--peer=pytorch", "--bytes=1000000")
        self.assertEqual([peer["name"] for peer in output["peers"]], ["memory", "pytorch"])
        self.assertTrue(output["peers"][1]["version"].startswith("torch "))
        self.assertIn("all-reduce 976.6 KiB shared memory / pytorch",
                      [ratio["name"] for ratio in output["ratios"]])

    def test_a_bad_flag_is_a_line(self):
        for flag in ("--bogus", "--ranks=1", "--bytes=3", "--calls=-1", "--peer=nobody"):
            self.assert_bad_flag(flag)

    def test_a_peer_that_cannot_run_is_named(self):
        result = self.run_world("--smoke", "--peer=pytorch", THRIFTPS_PYTHON="/bin/false")
        self.assertEqual(result.code, 1, result)
        self.assertIn("python3-torch", result.stderr)

    def test_ctrl_c(self):
        self.check_interrupt("--smoke", "--repeats=1000", n_processes=4)


if __name__ == "__main__":
    junit.main()
