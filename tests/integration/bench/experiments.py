# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Starts the originals' experiments and checks the properties that all of them share."""

import launcher
import report

# Flags that all scripts have.
COMMON = "--master_addr=localhost --trainer=DdpTrainer --filestore=/tmp/tmpn_k_8so02"


class TestCase(launcher.TestCase):

    def check_all(self, experiments):
        """`experiments`: name -> (flags, batches of each trainer in a pass)."""
        for name, (flags, batches) in experiments.items():
            with self.subTest(name=name):
                self.check(COMMON + " " + flags, batches)

    def check(self, flags, batches):
        output = self.run_to_json(*flags.split())
        figures = report.figures(output)
        for rank, n in enumerate(batches):
            forward = "trainer=%d/forward_metric,forward_pass" % rank
            step = "trainer=%d/batch_level_metric,batch_all" % rank
            self.assertEqual(figures[forward]["n"] if forward in figures else 0, n)
            # Without data, a trainer joins the rounds of the others.
            self.assertEqual(figures[step]["n"], max(batches))
        self.assertEqual(len(set(report.digests(output))), 1)
        return figures
