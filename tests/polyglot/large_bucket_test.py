# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A default bucket (29,388,800 bytes) shared by Python, C++ and C trainers, each with its limits
raised as OPERATING.md says."""

import array
import os
import subprocess
import unittest

import junit
import peers
from peers import Call, Client, Server, Way, dense, tensor
from thriftps.parameter_server import ParameterServer
from thriftps.tensor.ttypes import DType, Gradient, Tensor

BUCKET = 29388800 // 4
SMALL = 10


def floats_of(value, n_elems):
    return array.array("f", [value]) * n_elems


class LargeBucket(unittest.TestCase):

    def start(self, program, address, trainer, n_elems, n_batches, expected, *more):
        host, _, port = address.rpartition(":")
        process = subprocess.Popen(
            [os.path.abspath(os.environ[program]), host, port, str(trainer), str(n_elems),
             str(n_batches), str(expected), *more],
            stdout=subprocess.PIPE, text=True,
            # The client's library leaks (C GLib: about 136 bytes per call), so leaks are not
            # detected.
            env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def average(self, address, way, trainer, n_elems, n_batches, expected):
        gradient = Gradient(dense=Tensor(DType.FLOAT32, [n_elems],
                                         floats_of(trainer, n_elems).tobytes()))
        wanted = floats_of(expected, n_elems).tobytes()
        with Client(address, ParameterServer, way) as calls:
            for batch in range(n_batches):
                answer = calls.average_gradient(trainer, batch, 0, gradient)
                self.assertEqual(answer.dense.shape, [n_elems])
                self.assertTrue(answer.dense.data == wanted, "batch %d has a wrong average" % batch)

    def finish(self, process, expected="ok\n"):
        output, _ = process.communicate(timeout=peers.WAIT_S)
        self.assertEqual(output, expected)
        self.assertEqual(process.returncode, 0)

    def run_with(self, program, n_elems, n_batches):
        with Server("--ntrainer=2") as server:
            other = self.start(program, server.address, 1, n_elems, n_batches, 0.5)
            self.average(server.address, Way(True, "accelerated", True), 0, n_elems, n_batches, 0.5)
            self.finish(other)

    def test_python_and_cpp(self):
        # The messages have more than 100 MiB in total, but the limit applies to each message.
        self.run_with("CPP_CLIENT", BUCKET, 4)

    def test_python_and_c_glib(self):
        self.run_with("C_GLIB_CLIENT", BUCKET, 1)

    def test_small_from_c_glib(self):
        self.run_with("C_GLIB_CLIENT", SMALL, 50)

    def test_small_from_cpp(self):
        self.run_with("CPP_CLIENT", SMALL, 50)

    def test_every_way_of_python(self):
        with Server("--ntrainer=4") as server:
            ways = [Way(framed, protocol, True) for framed in (True, False)
                    for protocol in ("accelerated", "compact")]
            calls = [Call(lambda t=t, way=way: self.average(server.address, way, t, BUCKET, 1, 1.5))
                     for t, way in enumerate(ways)]
            for call in calls:
                call.wait()

    def test_libraries_refuse_the_bucket_without_raising_their_limits(self):
        for program in ("CPP_CLIENT", "C_GLIB_CLIENT"):
            with self.subTest(program=program), Server("--ntrainer=1") as server:
                process = self.start(program, server.address, 0, BUCKET, 1, 0, "small-limits")
                output, _ = process.communicate(timeout=peers.WAIT_S)
                self.assertNotEqual(output, "ok\n")
                self.assertNotEqual(process.returncode, 0)
                # The refusal must not affect other clients.
                with Client(server.address, ParameterServer) as calls:
                    self.assertEqual(calls.average_gradient(0, 9, 0, dense([1])).dense, tensor([1]))


if __name__ == "__main__":
    junit.main()
