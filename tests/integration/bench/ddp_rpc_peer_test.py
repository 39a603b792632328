# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:ddp_rpc next to PyTorch, with dense and with sparse table gradients."""

import junit
import launcher


class DdpRpcPeers(launcher.TestCase):

    def test_both_do_the_same_work_in_turn(self):
        report = self.run_to_json("--smoke", "--peer=both", "--repeats=2", "--epochs=3",
                                  "--number-trainers=1", "--number-embeddings=40")
        self.assertEqual([peer["name"] for peer in report["peers"]], ["pytorch", "pytorch-sparse"])
        for peer in report["peers"]:
            epoch, rate = peer["figures"][:2]
            self.assertEqual((epoch["name"], epoch["n"]), ("epoch", 2 * 3))
            self.assertEqual((rate["name"], rate["n"]), ("samples/s", 2))
        self.assertEqual([(ratio["name"], ratio["better"]) for ratio in report["ratios"]],
                         [("samples/s / pytorch", "higher"), ("epoch / pytorch", "lower"),
                          ("samples/s / pytorch-sparse", "higher"),
                          ("epoch / pytorch-sparse", "lower")])
        for ratio in report["ratios"]:
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])

    def test_values_of_the_command_line_reach_its_processes(self):
        result = self.run_well("--smoke", "--peer=pytorch", "--repeats=1", "--epochs=1",
                               "--batches=2", "--warmup-cycles=0", "--number-trainers=3",
                               "--number-ps=1", "--embedding-dim=1024")
        self.assertIn("samples/s, PyTorch ", result.stdout)


if __name__ == "__main__":
    junit.main()
