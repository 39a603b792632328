# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Tables that Python trains on two servers, read from Go, before and after both are killed.

plugin/examples/TUTORIAL.md does the same, and trains in PyTorch:
//tests/plugin/python:tutorial_test.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import junit
import toolchains
from peers import WAIT_S, Server

USER = 7
KIND = {USER % 4}  # the kind of item that the user likes in the synthetic data
SERVERS = 2


class Tutorial(unittest.TestCase):

    def start_servers(self, folder):
        servers = [Server("--services=EmbeddingTable", "--data-dir=%s/%d" % (folder, i))
                   for i in range(SERVERS)]
        for server in servers:
            self.addCleanup(server.process.stdout.close)
            self.addCleanup(server.process.kill)
        return servers

    def run_program(self, command, servers):
        done = subprocess.run([*command, *(server.address for server in servers)], timeout=WAIT_S,
                              stdout=subprocess.PIPE, text=True, check=True,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        return done.stdout

    def test_tutorial(self):
        examples = os.environ["EXAMPLES"]
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as data:
            go = toolchains.go(toolchains.Workshop(folder),
                               toolchains.find_program(examples, "recommend", "go"))
            servers = self.start_servers(data)
            train = [sys.executable, os.path.join(examples, "split_tables.py")]
            self.assertIn("step 400", self.run_program(train, servers))
            answer = self.run_program([*go, str(USER)], servers)
            self.assertEqual(KIND, {int(item) % 4 for item in re.findall(r"\d+", answer)}, answer)

            for server in servers:
                server.process.kill()
                server.process.wait(WAIT_S)
            self.assertEqual(self.run_program([*go, str(USER)], self.start_servers(data)), answer)


if __name__ == "__main__":
    junit.main()
