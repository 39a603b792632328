# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The Python programs of plugin/examples, each twice on its servers."""

import os
import subprocess
import sys
import unittest

import junit
from peers import WAIT_S, Server

EXAMPLES = "plugin/examples"


class Examples(unittest.TestCase):

    def start(self, program, *arguments):
        process = subprocess.Popen(
            [sys.executable, os.path.join(EXAMPLES, program), *arguments], text=True,
            stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        output, _ = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0)
        return output

    def finish_all(self, processes):
        return [self.finish(process) for process in processes]

    def test_average(self):
        with Server("--ntrainer=2") as server:
            host, _, port = server.address.rpartition(":")
            for job in ("blue", "green"):
                outputs = self.finish_all([self.start("average.py", host, port, job, trainer)
                                           for trainer in ("1", "0")])
                self.assertEqual(outputs, ["y = 1.995 x + 1.003\n"] * 2)

    def test_train_model(self):
        with Server("--ntrainer=2") as server:
            host, _, port = server.address.rpartition(":")
            for first in (1, 201):
                outputs = self.finish_all([self.start("train_model.py", host, port, trainer)
                                           for trainer in ("1", "0")])
                for output in outputs:
                    self.assertRegex(output, "version %d\nversion %d: y = (1.99|2.00). x" % (
                        first, first + 200))

    def test_split_tables(self):
        """A second run continues with the rows of the first one."""
        with Server() as one, Server() as two:
            first, second = [
                self.finish(self.start("split_tables.py", one.address, two.address))
                for _ in range(2)]
        self.assertTrue(first.startswith("step   0  loss 0.69\n"), first)
        self.assertTrue(second.startswith("step   0  loss 0.40\n"), second)


if __name__ == "__main__":
    junit.main()
