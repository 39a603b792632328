# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""--compress with every hook: every path of compressed gradients ends with the same parameters, and
the loss stays within bounds."""

import junit
import launcher
import report

# Each pair is compared with allreduce_hook, which needs no server.
HOOKS = (("rpc_hook", "AverageParameterServer"), ("rpc_hook", "AverageBatchParameterServer"),
         ("sparse_rpc_hook", "AverageBatchParameterServer"),
         ("hybrid_hook", "AverageParameterServer"))
COMPRESSIONS = ("none", "fp16", "bf16", "topk:0.1", "topk:1")

WORK = (*launcher.TINY, "--batch-size=4", "--epochs=3")

# Enough steps to let two trainers memorise many of their 64 samples.
LEARNING = (*launcher.TINY, "--epochs=800", "--learning-rate=10")


class Compress(launcher.TestCase):

    def digest(self, *flags, trainers=2):
        """The final parameters of all trainers."""
        found = report.digests(self.run_to_json(*WORK, "--ntrainer=%d" % trainers, *flags))
        self.assertEqual(len(found), trainers)
        self.assertEqual(len(set(found)), 1, found)
        return found[0]

    def check_hooks(self, compress, trainers, *flags):
        flags = ("--compress=" + compress, *flags)
        expected = self.digest("--ddp-hook=allreduce_hook", "--nserver=0", *flags,
                               trainers=trainers)
        for hook, server in HOOKS:
            with self.subTest(compress=compress, trainers=trainers, hook=hook, server=server):
                self.assertEqual(expected,
                                 self.digest("--ddp-hook=" + hook, "--server=" + server, *flags,
                                             trainers=trainers))
        return expected

    def test_every_hook_gives_two_trainers_the_same_parameters(self):
        found = {compress: self.check_hooks(compress, 2) for compress in COMPRESSIONS}
        self.assertEqual(found["none"], found["topk:1"])  # topk:1 sends all elements
        self.assertEqual(len(set(found.values())), len(found) - 1)

    def test_every_hook_gives_three_trainers_the_same_parameters(self):
        # The trainers have 6, 5 and 5 of 16 batches, so that some steps have no data.
        for compress in ("fp16", "topk:0.1"):
            self.check_hooks(compress, 3)

    def test_every_hook_gives_the_same_parameters_of_sums(self):
        for compress in ("bf16", "topk:0.1"):
            self.check_hooks(compress, 2, "--reduce=sum")

    def test_transports_and_layouts_carry_the_same_bits(self):
        for compress in ("fp16", "topk:0.1"):
            with self.subTest(compress=compress):
                expected = self.digest("--compress=" + compress)
                self.assertEqual(expected, self.digest("--compress=" + compress, "--transport=tcp"))
                self.assertEqual(expected, self.digest("--compress=" + compress, "--nserver=2"))

    def loss(self, compress):
        figures = report.figures(self.run_to_json(*LEARNING, "--compress=" + compress))
        return sum(figures["trainer=%d/loss" % rank]["samples"][0] for rank in (0, 1)) / 2

    def test_the_loss_is_nearly_that_without(self):
        start = 4.159  # log 64, the loss of an untrained model
        whole = self.loss("none")
        self.assertLess(whole, start - 0.6)
        for compress, part in (("fp16", 0.01), ("bf16", 0.01), ("topk:0.1", 0.05),
                               ("topk:0.01", 0.15)):
            with self.subTest(compress=compress):
                self.assertLess(abs(self.loss(compress) - whole), part * (start - whole))


if __name__ == "__main__":
    junit.main()
