# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""plugin/examples/train_recommender.py on two servers, as TUTORIAL.md starts it: twice."""

import os
import re
import subprocess
import sys
import unittest

import unpacked_wheel  # noqa: F401, makes thriftps importable
from server_process import WAIT_S, Server

EXAMPLES = "plugin/examples"


class Tutorial(unittest.TestCase):

    def train(self, *servers):
        done = subprocess.run(
            [
                sys.executable,
                os.path.join(EXAMPLES, "train_recommender.py"),
                *(server.address for server in servers),
            ],
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
            stdout=subprocess.PIPE,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        return done.stdout

    def test_the_losses_are_those_of_the_tutorial(self):
        with open(os.path.join(EXAMPLES, "TUTORIAL.md"), encoding="utf-8") as tutorial:
            shown = re.findall(r"^    (step.*\n)", tutorial.read(), re.MULTILINE)
        with Server() as one, Server() as two:
            self.assertEqual(self.train(one, two), "".join(shown))
            # The second run continues with the rows of the first run.
            self.assertIn("step   0  loss 0.32\n", self.train(one, two))


if __name__ == "__main__":
    unittest.main()
