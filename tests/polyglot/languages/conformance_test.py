# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""One conformance client in each language, against thriftps_server. README.md lists the checks."""

import array
import os
import struct
import subprocess
import tempfile
import time
import unittest

import junit
import toolchains
from peers import WAIT_S, Call, Client, Server, dense, floats, tensor
from thriftps.embedding_table import EmbeddingTable
from thriftps.parameter_server import ParameterServer
from thriftps.tensor.ttypes import DType, Gradient, PushId, SparseTensor, Tensor

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 2**53 + 1
LARGE = 5000000


def take_part(address):
    """Trainer 0; the client in the other language is trainer 1."""
    threes = Tensor(DType.FLOAT32, [LARGE], (array.array("f", [3]) * LARGE).tobytes())
    with Client(address, ParameterServer) as calls:
        small = calls.average_gradient(0, BATCH, 0, dense([3, 4, 5]))
        large = calls.average_gradient(0, BATCH, 1, Gradient(dense=threes))
    return floats(small.dense.data), large.dense.data


class Conformance(unittest.TestCase):

    def check_table(self, address, table):
        """The rows must be those of a single push. The server knows its id, which this client sends
        as well."""
        rows = tensor([3, 7], dtype=DType.INT64)
        gradient = SparseTensor(rows, tensor([1, 2, 3, 4], [2, 2]), [10, 2])
        with Client(address, EmbeddingTable) as calls:
            calls.apply_row_gradients(table, gradient, PushId(table, BATCH))
            self.assertEqual(floats(calls.lookup_rows(table, rows).data), [-1, -2, -3, -4])

    def check(self, language, make, extension):
        program = toolchains.find_program(HERE, "conformance", extension)
        with tempfile.TemporaryDirectory() as folder, \
                Server("--ntrainer=2") as server:
            begin = time.monotonic()
            shop = toolchains.Workshop(folder)
            command = make(shop, program)
            made = time.monotonic()
            partner = Call(lambda: take_part(server.address))
            host, _, port = server.address.rpartition(":")
            done = subprocess.run([*command, host, port, "table"], env=shop.env, timeout=WAIT_S,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            print("%s: made in %.1f s, run in %.2f s" % (
                language, made - begin, time.monotonic() - made), flush=True)
            self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
            small, large = partner.wait()
            self.assertEqual(small, [2, 3, 4])
            self.assertTrue(large == struct.pack("<f", 2) * LARGE)
            self.check_table(server.address, "table")


toolchains.add_tests(Conformance, Conformance.check)

if __name__ == "__main__":
    junit.main()
