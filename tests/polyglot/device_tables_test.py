# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Embedding tables on devices with generated clients, against the same tables on the CPU. The
devices are fakes whose memory the server cannot access (tests/runtime/fake_device)."""

import random
import threading
import unittest

import junit
from peers import Client, ErrorTest, Server, floats, sparse, tensor
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import (BagGradient, BagQuery, Initializer, InitializerKind,
                                             Pooling, TableSpec)
from thriftps.node import Node
from thriftps.node.ttypes import ErrorCode
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind, PushId

ROWS, DIM = 200, 16
PLACES = {"default": {}, "cpu": {"device": "cpu"}, "device": {"device": "cuda:1"},
          "pinned": {"device": "cuda:0", "host_memory": True}}


def ids(values):
    return tensor(values, dtype=DType.INT64)


def spec(name, dtype=DType.FLOAT32, **more):
    return TableSpec(name, ROWS, DIM, dtype,
                     initializer=Initializer(InitializerKind.NORMAL, seed=5),
                     optimizer=Optimizer(OptimizerKind.ADAM, 0.1), **more)


def query(table, indices, offsets, pooling=Pooling.SUM):
    return BagQuery(table, ids(indices), ids(offsets), pooling)


class DeviceTables(unittest.TestCase):

    def test_every_place_gives_the_same_bits(self):
        dice = random.Random(1)
        with Server("--table-device=cuda", "--default-service=EmbeddingTable") as server, \
                Client(server.address, EmbeddingTable) as calls:
            for name, place in PLACES.items():
                calls.create_table(spec(name, **place))
            for step in range(6):
                indices = [dice.randrange(ROWS) for _ in range(50)]
                pooling = (Pooling.SUM, Pooling.MEAN)[step % 2]
                rows = [dice.uniform(-1, 1) for _ in range(50 * DIM)]
                bags = [dice.uniform(-1, 1) for _ in range(3 * DIM)]
                for name in PLACES:
                    calls.apply_row_gradients(name, sparse(indices, rows, ROWS, DIM).sparse,
                                              PushId("rows_of_" + name, step))
                    calls.apply_row_gradients(name, sparse(indices, rows, ROWS, DIM).sparse, None)
                calls.apply_bag_gradients([
                    BagGradient(query(name, indices, [0, 7, 7], pooling), tensor(bags, [3, DIM]))
                    for name in PLACES
                ], PushId("bags", step))
                pooled = calls.lookup_bags([query(name, indices, [0, 9, 20], pooling)
                                            for name in PLACES])
                self.assertEqual({bytes(output.data) for output in pooled}, {bytes(pooled[0].data)})
            everything = [calls.lookup_rows(name, ids(range(ROWS))).data for name in PLACES]
            self.assertEqual(set(everything), {everything[0]})

    def test_lists_tell_the_place(self):
        with Server("--table-device=cuda:1/host") as server, \
                Client(server.address, EmbeddingTable) as calls, \
                Client(server.address, Node) as node:
            self.assertIn("cuda:0", node.describe().devices)
            for name, place in PLACES.items():
                calls.create_table(spec(name, **place))
            listed = {table.name: (table.device, bool(table.host_memory))
                      for table in calls.list_tables()}
            self.assertEqual(listed, {"default": ("cuda:1", True), "cpu": ("cpu", False),
                                      "device": ("cuda:1", False), "pinned": ("cuda:0", True)})
            for name in PLACES:
                calls.drop_table(name)
            self.assertEqual(calls.list_tables(), [])

    def test_without_a_place_tables_are_on_the_cpu(self):
        with Server() as server, Client(server.address, EmbeddingTable) as calls:
            calls.create_table(spec("emb"))
            [listed] = calls.list_tables()
            self.assertEqual((listed.device, listed.host_memory), ("cpu", None))

    def test_many_clients_at_once(self):
        failures = []

        def work(address, number):
            dice = random.Random(number)
            try:
                with Client(address, EmbeddingTable) as calls:
                    for step in range(20):
                        indices = [dice.randrange(ROWS) for _ in range(200)]
                        calls.lookup_bags([query(name, indices, list(range(0, 200, 4)))
                                           for name in ("a", "b")])
                        calls.apply_row_gradients(
                            "ab"[step % 2], sparse(indices, [0.5] * (200 * DIM), ROWS, DIM).sparse,
                                                  PushId("client%d" % number, step))
            except Exception as failure:  # pylint: disable=broad-except
                failures.append(failure)

        with Server() as server, Client(server.address, EmbeddingTable) as calls:
            calls.create_table(spec("a", device="cuda:0"))
            calls.create_table(spec("b", device="cuda:1"))
            threads = [threading.Thread(target=work, args=(server.address, number))
                       for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])


class Errors(ErrorTest):

    def test_places_that_there_are_not(self):
        with Server() as server, Client(server.address, EmbeddingTable) as calls:
            for more, code, words in (
                    ({"device": "cuda:7"}, ErrorCode.NOT_FOUND,
                     ("spec.device", "cuda:7", "cuda:0", "cuda:1")),
                    ({"device": "a b"}, ErrorCode.INVALID_ARGUMENT, ("spec.device",)),
                    ({"host_memory": True}, ErrorCode.INVALID_ARGUMENT, ("spec.host_memory",))):
                with self.subTest(more=more):
                    self.assert_fails(code, lambda: calls.create_table(spec("emb", **more)), *words)
            self.assertEqual(calls.list_tables(), [])


if __name__ == "__main__":
    junit.main()
