# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The Python lines of README.md run unchanged: by two trainers, and again."""

import os
import re
import subprocess
import sys
import unittest

import junit
from peers import WAIT_S, Server

MAIN = "trainer, batch, bucket = 0, 0, 0"
PUSH = """
row = tables.lookup_rows("emb", int64s(3)).data
tables.apply_bag_gradients([BagGradient(query=query, gradient=pooled)], push)
assert tables.lookup_rows("emb", int64s(3)).data == row, "the push was applied twice"
"""


def read_program():
    """The first two blocks, which share a connection, then their push once more with its id."""
    with open("README.md", encoding="utf-8") as readme:
        blocks = re.findall(r"```python\n(.*?)```", readme.read(), re.DOTALL)
    return blocks[0] + blocks[1] + PUSH + "print(struct.unpack('<3f', mean.data))\n"


class Readme(unittest.TestCase):

    def start(self, program, address, trainer):
        program = program.replace('"127.0.0.1", 7070', '"%s", %s' % tuple(address.rsplit(":", 1)))
        program = program.replace(MAIN, MAIN.replace("= 0", "= %d" % trainer, 1))
        # Each trainer has its own table, so that the other trainer's push cannot change the row in
        # between.
        program = program.replace('"emb"', '"emb%d"' % trainer)
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_two_trainers_twice(self):
        program = read_program()
        self.assertIn(MAIN, program)
        with Server("--ntrainer=2") as server:
            for _ in range(2):
                for process in [self.start(program, server.address, t) for t in range(2)]:
                    output, _ = process.communicate(timeout=WAIT_S)
                    self.assertEqual((process.returncode, output), (0, "(1.0, 2.0, 3.0)\n"))


if __name__ == "__main__":
    junit.main()
