# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:batch_update next to PyTorch: alternating passes, one ratio."""

import json
import os

import junit
import launcher


class BatchUpdatePeer(launcher.TestCase):

    def test_both_are_reported(self):
        result = self.run_world("--smoke", "--batches=10", "--repeats=2", "--peer=pytorch",
                                "--json=out.json")
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.stdout, r"\nPyTorch: [\d.e+]+ updates/s, ThriftPS: [\d.e+]+ "
                                        r"updates/s, [\d.e+]+ x\n")
        self.assertRegex(result.stdout, r"\nTime spent training: [\d.e-]+s\n[\d.e+]+ updates/s\n$")
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            output = json.load(file)
        peer = output["peers"][0]
        self.assertEqual(peer["name"], "pytorch")
        figures = {figure["name"]: figure for figure in peer["figures"]}
        self.assertEqual(figures["updates"]["n"], 2)
        self.assertEqual(figures["trainer=0/batch_level_metric,batch_all"]["n"], 20)
        ratio = [ratio for ratio in output["ratios"] if ratio["name"] == "updates"][0]
        self.assertEqual(ratio["better"], "higher")
        self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])


if __name__ == "__main__":
    junit.main()
