# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Python clients average: framed and buffered, binary and compact, multiplexed and plain, at the
same time."""

import unittest

import junit
import peers
from peers import Call, Client, Server, Way, dense, floats, sparse
from thriftps.node import Node
from thriftps.parameter_server import ParameterServer
from thriftps.rendezvous import Rendezvous
from thriftps.tensor.ttypes import PushId

N = 8


def average(address, way, trainer, batches, gradient):
    """The averages of this trainer in all batches."""
    with Client(address, ParameterServer, way) as server:
        return [server.average_gradient(trainer, batch, 0, gradient(trainer, batch))
                for batch in range(batches)]


class Average(unittest.TestCase):

    def run_trainers(self, ways, batches, gradient, listen="127.0.0.1:0"):
        with Server("--ntrainer=%d" % N, "--default-service=ParameterServer",
                    listen=listen) as server:
            calls = [Call(lambda t=t, way=way: average(server.address, way, t, batches, gradient))
                     for t, way in enumerate(ways)]
            return [call.wait() for call in calls]

    def check_dense(self, results, batches, n_elems):
        for batch in range(batches):
            mean = [sum(t + batch + i for t in range(N)) / N for i in range(n_elems)]
            for result in results:
                self.assertEqual(floats(result[batch].dense.data), mean)
                self.assertEqual(result[batch].dense.shape, [n_elems])

    def test_eight_ways_at_once(self):
        self.assertEqual(len(peers.WAYS), N)
        results = self.run_trainers(
            peers.WAYS, 5, lambda t, b: dense([t + b + i for i in range(10)]))
        self.check_dense(results, 5, 10)

    def test_eight_ways_at_once_with_bodies(self):
        # With 20 KB, the server receives the message into a separate buffer.
        results = self.run_trainers(
            peers.WAYS, 3, lambda t, b: dense([t + b + i for i in range(5000)]))
        self.check_dense(results, 3, 5000)

    def test_unix_socket(self):
        results = self.run_trainers(
            peers.WAYS, 2, lambda t, b: dense([t + b + i for i in range(10)]),
            listen="unix:polyglot.sock")
        self.check_dense(results, 2, 10)

    def test_sparse(self):
        # Trainer t sends gradients for row t and row 8, and for row 8 twice.
        results = self.run_trainers(
            peers.WAYS, 1, lambda t, b: sparse([8, t, 8], [1, 1, t, t, 2, 2], 100, 2))
        for result in results:
            rows = result[0].sparse
            self.assertEqual(rows.shape, [100, 2])
            self.assertEqual(rows.indices.data, peers.tensor(list(range(9)), dtype=6).data)
            values = floats(rows.values.data)
            self.assertEqual(values[:16], [t / N for t in range(N) for _ in range(2)])
            self.assertEqual(values[16:], [3.0, 3.0])

    def test_same_bits_for_everybody(self):
        results = self.run_trainers(peers.WAYS, 1, lambda t, b: dense([0.1 * (t + 1), 1e-8 * t]))
        self.assertEqual(len({result[0].dense.data for result in results}), 1)

    def test_one_client_many_batches(self):
        with Server("--ntrainer=1") as server, Client(server.address, ParameterServer) as calls:
            for batch in range(200):
                answer = calls.average_gradient(0, batch, batch % 3, dense([batch, 1]))
                self.assertEqual(floats(answer.dense.data), [batch, 1])


class OtherServices(unittest.TestCase):

    def test_every_way_reaches_every_service(self):
        for protocol in ("binary", "compact", "accelerated"):
            for framed in (True, False):
                way = Way(framed, protocol, True)
                with self.subTest(way=way), Server() as server:
                    with Client(server.address, Node, way) as node:
                        self.assertIn("ParameterServer", node.describe().services)
                    with Client(server.address, Rendezvous, way) as store:
                        store.put("key", b"\x00\xff" * 5000)
                        self.assertEqual(store.get("key", 0), b"\x00\xff" * 5000)
                        self.assertEqual(store.add("sum", 2, PushId("me", 1)), 2)
                        self.assertEqual(store.add("sum", 2, PushId("me", 1)), 2)
                        self.assertEqual(store.add("sum", 3, PushId("me", 2)), 5)

    def test_metrics_name_what_was_averaged(self):
        with Server("--ntrainer=1") as server:
            with Client(server.address, ParameterServer) as calls:
                calls.average_gradient(0, 0, 0, dense([1]))
            with Client(server.address, Node) as node:
                metrics = node.get_metrics(True)
                self.assertTrue(metrics)
                for metric in metrics:
                    self.assertEqual(len(metric.samples_ms), 8 * metric.count)
                node.clear_metrics()
                self.assertEqual(node.get_metrics(False), [])

    def test_get_waits_for_put(self):
        with Server() as server:
            with Client(server.address, Rendezvous) as waiting, \
                    Client(server.address, Rendezvous) as putting:
                got = Call(lambda: waiting.get("later", 30000))
                putting.put("later", b"here")
                self.assertEqual(got.wait(), b"here")


if __name__ == "__main__":
    junit.main()
