# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""--peer=pytorch: the same work on PyTorch's own RPC, alternating with ours, and both ratios."""

import junit
import launcher
import report


class PyTorch(launcher.TestCase):

    def check(self, hook, *flags):
        result = self.run_well("--smoke", "--peer=pytorch", "--ddp-hook=" + hook, "--repeats=2",
                               "--batch-size=8", *flags)
        output = self.run_to_json("--smoke", "--peer=pytorch", "--ddp-hook=" + hook, "--repeats=2",
                                  "--batch-size=8", *flags)
        return result.stdout, output

    def test_servers(self):
        text, output = self.check("rpc_hook")
        self.assertRegex(text, r"\nThriftPS and PyTorch [12]\.\d+.*, 2 passes in turn")
        (peer,) = output["peers"]
        self.assertEqual(peer["name"], "pytorch")
        self.assertRegex(peer["version"], r"^[12]\.\d+")
        ours, theirs = report.figures(output), report.figures(peer)
        names = [name for name in ours if not name.endswith("/loss")]
        self.assertEqual(set(theirs), set(names))  # equal work has equal metrics
        for name in names:
            with self.subTest(name=name):
                self.assertEqual(theirs[name]["n"], ours[name]["n"])
                self.assertGreater(theirs[name]["min"], 0)
        self.check_ratios(output)

    def check_ratios(self, output):
        names = [ratio["name"] for ratio in output["ratios"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("all trainer/batch_level_metric,batch_all", names)
        for ratio in output["ratios"]:
            self.assertEqual(ratio["better"], "lower")
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])

    def test_all_reduce(self):
        text, output = self.check("allreduce_hook", "--nserver=0")
        self.check_ratios(output)
        self.assertIn("all trainer/hook_future_metric,gloo_sparse_allreduce",
                      [ratio["name"] for ratio in output["ratios"]])
        self.assertNotIn("server", text[text.index("ThriftPS and PyTorch"):])


if __name__ == "__main__":
    junit.main()
