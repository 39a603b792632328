# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""plugin/examples/word_table in each language, twice on one server: every run pushes once."""

import os
import subprocess
import tempfile
import time
import unittest

import junit
import toolchains
from peers import WAIT_S, Server


class WordTable(unittest.TestCase):

    def check(self, language, make, extension):
        program = toolchains.find_program(os.environ["EXAMPLES"], "word_table", extension)
        with tempfile.TemporaryDirectory() as folder, Server() as server:
            begin = time.monotonic()
            shop = toolchains.Workshop(folder)
            command = make(shop, program)
            made = time.monotonic()
            host, _, port = server.address.rpartition(":")
            for expected in ("-0.3", "-0.6"):
                done = subprocess.run([*command, host, port], env=shop.env, timeout=WAIT_S,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stdout),
                                 (0, " ".join([expected] * 4) + "\n"), done.stderr)
            print("%s: made in %.1f s, two runs in %.2f s" % (
                language, made - begin, time.monotonic() - made), flush=True)


toolchains.add_tests(WordTable, WordTable.check)

if __name__ == "__main__":
    junit.main()
