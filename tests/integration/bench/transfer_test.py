# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:transfer: what it prints and writes, and that it leaves nothing behind."""

import json
import os
import signal

import junit
import launcher

FIGURES = {"push 16 MiB tcp": "GB/s", "small calls, 8 clients": "calls/s"}


class Transfer(launcher.TestCase):
    program = os.path.abspath(os.environ["TRANSFER"])

    def test_figures_stand_next_to_their_limits(self):
        result = self.run_well("--smoke", "--json=out.json")
        for name in FIGURES:
            self.assertIn("\n" + name, result.stdout)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "transfer"))
        self.assertEqual({figure["name"]: figure["unit"] for figure in output["figures"]}, FIGURES)
        self.assertEqual([ratio["better"] for ratio in output["ratios"]], ["higher"] * len(FIGURES))
        for ratio in output["ratios"]:
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])
            self.assertGreater(ratio["ratio"], 0)

    def test_a_bad_flag_is_a_line(self):
        result = self.run_world("--bogus")
        self.assertEqual((result.code, result.stderr.count("\n")), (2, 1), result)

    def test_ctrl_c(self):
        run = self.start("--repeats=1000")
        launcher.eventually(lambda: len(run.living()) > 1, "its servers are there")
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish().code, 130)
        self.assert_nothing_left(run)


if __name__ == "__main__":
    junit.main()
