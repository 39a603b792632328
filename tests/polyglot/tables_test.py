# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Embedding tables with generated clients: every method and error, with every transport and
protocol, and many concurrent clients."""

import multiprocessing
import os
import subprocess
import unittest

import junit
from peers import TALKS, WAYS, Client, ErrorTest, Server, floats, sparse, tensor
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import (BagGradient, BagQuery, Initializer, InitializerKind,
                                             Pooling, TableSpec)
from thriftps.node import Node
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind, PushId, SparseTensor, Tensor

ROWS, DIM = 100, 4
SERVE_TABLES = "--default-service=EmbeddingTable"


def ids(values):
    return tensor(values, dtype=DType.INT64)


def spec(name="emb", rows=ROWS, dim=DIM, dtype=DType.FLOAT32, kind=OptimizerKind.SGD,
         learning_rate=1.0, **more):
    return TableSpec(name, rows, dim, dtype, initializer=Initializer(InitializerKind.ZEROS),
                     optimizer=Optimizer(kind, learning_rate), **more)


def query(indices, offsets, pooling=Pooling.SUM, weights=None, table="emb"):
    return BagQuery(table, ids(indices), ids(offsets), pooling, weights and tensor(weights))


def rows_of(calls, indices, table="emb"):
    return floats(calls.lookup_rows(table, ids(indices)).data)


def gradient(indices, value, dim=DIM, rows=ROWS):
    return sparse(indices, [value] * (len(indices) * dim), rows, dim).sparse


class Methods(unittest.TestCase):

    def test_every_method_in_every_way(self):
        for way in WAYS:
            with self.subTest(way=way), Server(SERVE_TABLES) as server, \
                    Client(server.address, EmbeddingTable, way) as calls:
                self.check_methods(calls)

    def check_methods(self, calls):
        calls.create_table(spec())
        calls.create_table(spec())  # the same table again is allowed
        self.assertEqual(rows_of(calls, [7, 99]), [0.0] * (2 * DIM))

        # With SGD at learning rate 1, a row is the negated sum of its gradients.
        calls.apply_row_gradients("emb", gradient([1, 2, 1], -1.0), None)
        self.assertEqual(rows_of(calls, [1, 2, 3]), [2.0] * DIM + [1.0] * DIM + [0.0] * DIM)
        sums, means, weighted = calls.lookup_bags([
            query([1, 2, 2], [0, 2]), query([1, 2, 3, 0], [0, 2, 2, 4], Pooling.MEAN),
            query([1, 2], [0], weights=[0.5, 4.0])])
        self.assertEqual((sums.dtype, sums.shape), (DType.FLOAT32, [2, DIM]))
        self.assertEqual(floats(sums.data), [3.0] * DIM + [1.0] * DIM)
        # The second and the last bag are empty.
        self.assertEqual(floats(means.data), [1.5] * DIM + [0.0] * (3 * DIM))
        self.assertEqual(floats(weighted.data), [5.0] * DIM)

        calls.apply_bag_gradients(
            [BagGradient(query([5, 6], [0], Pooling.MEAN), tensor([-2.0] * DIM, [1, DIM])),
             BagGradient(query([6], [0], weights=[3.0]), tensor([-1.0] * DIM, [1, DIM]))], None)
        self.assertEqual(rows_of(calls, [5, 6]), [1.0] * DIM + [4.0] * DIM)
        for call, arguments in (
                (calls.lookup_bags, ([query([1], [0], Pooling.MAX)],)),
                (calls.apply_bag_gradients,
                 ([BagGradient(query([1], [0], Pooling.MAX), tensor([1.0] * DIM, [1, DIM]))],
                  None))):
            with self.assertRaisesRegex(ServiceError, "servers do not pool with MAX") as caught:
                call(*arguments)
            self.assertEqual(caught.exception.code, ErrorCode.INVALID_ARGUMENT)

        [listed] = calls.list_tables()
        self.assertEqual((listed.name, listed.rows, listed.dim, listed.dtype),
                         ("emb", ROWS, DIM, DType.FLOAT32))
        self.assertGreaterEqual(listed.bytes, ROWS * DIM * 4)
        calls.drop_table("emb")
        self.assertEqual(calls.list_tables(), [])

    def test_large_tensors(self):
        for way in WAYS:
            with self.subTest(way=way), Server(SERVE_TABLES) as server, \
                    Client(server.address, EmbeddingTable, way) as calls:
                calls.create_table(spec(rows=20000, dim=16))
                everything = list(range(20000))
                calls.apply_row_gradients("emb", gradient(everything, -3.0, 16, 20000),
                                          PushId("me", 1))
                self.assertEqual(rows_of(calls, everything), [3.0] * (20000 * 16))
                [sums] = calls.lookup_bags([query(everything, list(range(20000)))])
                self.assertEqual(floats(sums.data), [3.0] * (20000 * 16))

    def test_half_precision_rows(self):
        with Server() as server, Client(server.address, EmbeddingTable) as calls:
            for name, dtype, one in (("half", DType.FLOAT16, b"\x00\x3c"),
                                     ("bfloat", DType.BFLOAT16, b"\x80\x3f")):
                calls.create_table(spec(name, dtype=dtype))
                calls.apply_row_gradients(name, gradient([3], -1.0), None)
                rows = calls.lookup_rows(name, ids([3, 4]))
                self.assertEqual((rows.dtype, rows.shape), (dtype, [2, DIM]))
                self.assertEqual(rows.data, one * DIM + b"\0\0" * DIM)
                [sums] = calls.lookup_bags([query([3, 3], [0], table=name)])
                self.assertEqual(floats(sums.data), [2.0] * DIM)

    def test_shards_know_their_rows_by_global_ids(self):
        with Server() as server, Client(server.address, EmbeddingTable) as calls:
            calls.create_table(spec("range", first_row=40, shard_rows=20))
            calls.apply_row_gradients("range", gradient([40, 59], -1.0), None)
            self.assertEqual(rows_of(calls, [59, 41], "range"), [1.0] * DIM + [0.0] * DIM)
            for index in range(3):
                calls.create_table(spec("hash%d" % index, shard_index=index, shard_count=3))
            listed = {table.name: table for table in calls.list_tables()}
            self.assertEqual((listed["range"].first_row, listed["range"].shard_rows), (40, 20))
            self.assertEqual(sorted(listed["hash%d" % index].shard_rows for index in range(3)),
                             [33, 33, 34])

    def test_describe_tells_the_bytes(self):
        with Server("--max-table-mib=3") as server, \
                Client(server.address, EmbeddingTable) as calls, \
                Client(server.address, Node) as node:
            self.assertEqual((node.describe().table_bytes, node.describe().max_table_bytes),
                             (0, 3 << 20))
            calls.create_table(spec(rows=1000, dim=64, kind=OptimizerKind.ADAM))
            held = node.describe().table_bytes
            self.assertGreaterEqual(held, 1000 * 64 * 3 * 4)
            self.assertLessEqual(held, 1000 * 64 * 3 * 4 * 1.1)
            calls.drop_table("emb")
            self.assertEqual(node.describe().table_bytes, 0)


# A query, and words of the error message.
BAD_QUERIES = [
    ("index too large", query([1, ROWS], [0]), ("indices[1]", "100")),
    ("negative index", query([-1], [0]), ("indices[0]", "-1")),
    ("the largest index", query([2 ** 63 - 1], [0]), ("indices[0]",)),
    ("a negative offset", query([1, 2], [0, -1]), ("offsets[1]",)),
    ("offsets that do not begin with 0", query([1, 2], [1]), ("offsets[0]",)),
    ("offsets that do not ascend", query([1, 2], [0, 2, 1]), ("offsets[2]",)),
    ("an offset beyond the indices", query([1, 2], [0, 3]), ("offsets[1]",)),
    ("unknown pooling", query([1], [0], 9), ("pooling", "9")),
    ("no pooling", query([1], [0], None), ("pooling",)),
    ("weights with MEAN", query([1], [0], Pooling.MEAN, [1.0]), ("weights",)),
    ("too few weights", query([1, 2], [0], weights=[1.0]), ("weights",)),
    ("indices of another type",
     BagQuery("emb", tensor([1], dtype=DType.INT32), ids([0]), Pooling.SUM),
     ("indices", "INT32")),
    ("indices with too few bytes",
     BagQuery("emb", Tensor(DType.INT64, [2], b"\0" * 15), ids([0]), Pooling.SUM),
     ("indices", "15")),
    ("a table's name that is none", query([1], [0], table="a b"), ("table",)),
]

BAD_GRADIENTS = [
    ("index too large", gradient([1, ROWS], 1.0), ("indices[1]",)),
    ("another dim", gradient([1], 1.0, DIM + 1), (str(DIM),)),
    ("another number of rows", gradient([1], 1.0, rows=ROWS + 1), ("shape[0]", "101", "100")),
    ("values of another type",
     SparseTensor(ids([1]), Tensor(DType.INT32, [1, DIM], b"\0" * 4 * DIM), [ROWS, DIM]),
     ("INT32",)),
    ("fewer values than indices",
     SparseTensor(ids([1, 2]), tensor([1.0] * DIM, [1, DIM]), [ROWS, DIM]),
     ("values",)),
]

BAD_SPECS = [
    ("no rows", spec("new", rows=0), ("rows",)),
    ("negative rows", spec("new", rows=-5), ("rows",)),
    ("more rows than memory has addresses", spec("new", rows=2 ** 63 - 1, dim=2 ** 31 - 1),
     ("rows",)),
    ("no name", spec(""), ("name",)),
    ("no columns", spec("new", dim=0), ("dim",)),
    ("integers", spec("new", dtype=DType.INT64), ("INT64",)),
    ("unknown dtype", spec("new", dtype=77), ("77",)),
    ("unknown optimizer", spec("new", kind=77), ("optimizer", "77")),
    ("negative learning rate", spec("new", learning_rate=-1.0), ("learning_rate",)),
    ("a learning rate that is no number", spec("new", learning_rate=float("nan")),
     ("learning_rate",)),
    ("momentum of Adam", TableSpec("new", 1, 1, DType.FLOAT32, optimizer=Optimizer(
        OptimizerKind.ADAM, 0.1, momentum=0.5)), ("momentum",)),
    ("bounds the wrong way round", TableSpec("new", 1, 1, DType.FLOAT32, initializer=Initializer(
        InitializerKind.UNIFORM, 1.0, 0.0)), ("initializer",)),
    ("first row outside", spec("new", first_row=ROWS + 1), ("first_row",)),
    ("shard without a count", spec("new", shard_index=0), ("shard_count",)),
    ("shard outside", spec("new", shard_index=2, shard_count=2), ("shard_index",)),
    ("shards of two kinds", spec("new", first_row=0, shard_index=0, shard_count=2),
     ("first_row", "shard_count")),
    ("another number of rows than its shard", spec("new", shard_index=0, shard_count=3,
                                                   shard_rows=33), ("shard_rows is 33", "34")),
    ("part of the rows without a first one", spec("new", shard_rows=50), ("shard_rows is 50",)),
    ("a negative number of rows of a shard", spec("new", first_row=0, shard_rows=-1),
     ("shard_rows",)),
    ("a device's name that is too long", spec("new", device="c" * 32), ("device", "31")),
    ("unknown rounding", spec("new", rounding=3), ("rounding", "3")),
]


class Errors(ErrorTest):

    def setUp(self):
        self.server = Server("--max-table-mib=1", SERVE_TABLES)
        self.addCleanup(lambda: self.server.__exit__())

    def test_bad_arguments(self):
        for way in TALKS:
            with Client(self.server.address, EmbeddingTable, way) as calls:
                calls.create_table(spec())
                calls.apply_row_gradients("emb", gradient([1, 2], 1.0),
                                          PushId("way%d" % TALKS.index(way), 1))
                before = rows_of(calls, range(ROWS))
                self.check_bad_arguments(calls, way)
                self.assertEqual(rows_of(calls, range(ROWS)), before)
                self.assertEqual(len(calls.list_tables()), 1)

    def check_bad_arguments(self, calls, way):
        good = query([1], [0])
        for what, bad, words in BAD_QUERIES:
            with self.subTest(way=way, what=what):
                self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                                  lambda: calls.lookup_bags([good, bad]), "queries[1]",
                                  *words)
                one = tensor([1.0] * DIM, [1, DIM])
                self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: calls.apply_bag_gradients(
                    [BagGradient(good, one), BagGradient(bad, one)], None), "gradients[1]", *words)
        for what, bad, words in BAD_GRADIENTS:
            with self.subTest(way=way, what=what):
                self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                                  lambda: calls.apply_row_gradients("emb", bad, None),
                                  *words)
        for what, bad, words in BAD_SPECS:
            with self.subTest(way=way, what=what):
                self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: calls.create_table(bad),
                                  *words)
        for call, word in ((lambda: calls.create_table(None), "spec"),
                           (lambda: calls.lookup_bags(None), "queries"),
                           (lambda: calls.lookup_rows(None, ids([1])), "table"),
                           (lambda: calls.lookup_rows("emb", None), "indices"),
                           (lambda: calls.lookup_rows("emb", ids([1, -1])), "indices[1]"),
                           (lambda: calls.apply_row_gradients("emb", None, None), "gradient"),
                           (lambda: calls.apply_bag_gradients(None, None), "gradients"),
                           (lambda: calls.drop_table(None), "table")):
            self.assert_fails(ErrorCode.INVALID_ARGUMENT, call, word)

    def test_gradient_of_another_shape_than_the_bags(self):
        with Client(self.server.address, EmbeddingTable) as calls:
            calls.create_table(spec())
            for bad in (tensor([1.0] * 2 * DIM, [2, DIM]), tensor([1.0] * 3, [1, 3]),
                        tensor([1.0] * DIM)):
                self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: calls.apply_bag_gradients(
                    [BagGradient(query([1], [0]), bad)], None), "gradients[0]")

    def test_unknown_tables(self):
        one = tensor([1.0] * DIM, [1, DIM])
        for way in TALKS:
            with Client(self.server.address, EmbeddingTable, way) as calls:
                for call in (lambda: calls.drop_table("none"),
                             lambda: calls.lookup_rows("none", ids([1])),
                             lambda: calls.lookup_bags([query([1], [0], table="none")]),
                             lambda: calls.apply_row_gradients("none", gradient([1], 1.0), None),
                             lambda: calls.apply_bag_gradients(
                                 [BagGradient(query([1], [0], table="none"), one)], None)):
                    self.assert_fails(ErrorCode.NOT_FOUND, call, "none")

    def test_another_specification(self):
        with Client(self.server.address, EmbeddingTable) as calls:
            calls.create_table(spec())
            for other, word in ((spec(rows=ROWS + 1), "rows"), (spec(dim=DIM + 1), "dim"),
                                (spec(dtype=DType.FLOAT16), "dtype"),
                                (spec(learning_rate=0.5), "optimizer"),
                                (spec(first_row=0, shard_rows=10), "shard")):
                self.assert_fails(ErrorCode.ALREADY_EXISTS, lambda: calls.create_table(other), word)

    def test_beyond_the_bound(self):
        with Client(self.server.address, EmbeddingTable) as calls:
            self.assert_fails(ErrorCode.RESOURCE_EXHAUSTED,
                              lambda: calls.create_table(spec(rows=1 << 20)),
                              str(1 << 20))
            self.assertEqual(calls.list_tables(), [])

    def test_push_ids(self):
        with Client(self.server.address, EmbeddingTable) as calls:
            calls.create_table(spec())
            for _ in range(3):
                calls.apply_row_gradients("emb", gradient([1], -1.0), PushId("me", 5000))
            self.assertEqual(rows_of(calls, [1]), [1.0] * DIM)
            self.assert_fails(ErrorCode.DUPLICATE, lambda: calls.apply_row_gradients(
                "emb", gradient([1], -2.0), PushId("me", 5000)), "5000", "me")
            self.assert_fails(ErrorCode.STALE, lambda: calls.apply_row_gradients(
                "emb", gradient([1], -1.0), PushId("me", 2)), "2", "me")
            self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: calls.apply_row_gradients(
                "emb", gradient([1], -1.0), PushId("white space", 2)), "push.client")
            calls.drop_table("emb")
            calls.create_table(spec())  # another table, so its ids are new
            for sequence in (5000, 4990, 5000, 4990):
                calls.apply_row_gradients("emb", gradient([1], -1.0), PushId("me", sequence))
            self.assertEqual(rows_of(calls, [1]), [2.0] * DIM)


# ---- many concurrent clients
# ----------------------------------------------------------------------

N_PYTHON, N_C, N_PUSHES, ROWS_A_PUSH, MANY_ROWS = 8, 2, 60, 16, 500


def push_of(client, push):
    """Row ids, some twice, and an integer for each: their sums are exact in any order."""
    return [((client * 31 + push * 17 + i * 13) % MANY_ROWS, (client + push + i) % 5 - 2)
            for i in range(ROWS_A_PUSH)]


def by_rows(calls, pushed, push_id):
    calls.apply_row_gradients("emb", sparse([row for row, _ in pushed],
                                            [v for _, v in pushed for _ in range(DIM)],
                                            MANY_ROWS, DIM).sparse, push_id)


def by_bags(calls, pushed, push_id):
    bags = query([row for row, _ in pushed], list(range(ROWS_A_PUSH)))
    calls.apply_bag_gradients([BagGradient(bags, tensor([v for _, v in pushed for _ in range(DIM)],
                                                        [ROWS_A_PUSH, DIM]))], push_id)


def check_whole(values):
    """Each push adds the same value to all columns of a row, so all rows must have equal columns at
    any time."""
    for i in range(0, len(values), DIM):
        if len(set(values[i:i + DIM])) != 1:
            raise AssertionError("a row is seen half updated: %r" % values[i:i + DIM])


def run_client(address, way, client):
    with Client(address, EmbeddingTable, way) as calls:
        for push in range(N_PUSHES):
            pushed = push_of(client, push)
            apply = by_rows if push % 2 == 0 else by_bags
            apply(calls, pushed, PushId("py.%d" % client, push))
            check_whole(rows_of(calls, [row for row, _ in pushed]))
            [sums] = calls.lookup_bags([query([row for row, _ in pushed], [0, 3])])
            check_whole(floats(sums.data))
            if push % 3 == 0:  # a repeat, as after a lost reply
                apply(calls, pushed, PushId("py.%d" % client, push))


class ManyClients(unittest.TestCase):

    def start_c(self, address, client):
        host, _, port = address.rpartition(":")
        process = subprocess.Popen(
            [os.path.abspath(os.environ["C_GLIB_TABLE_CLIENT"]), host, port, "emb", str(MANY_ROWS),
             str(DIM), str(client), str(N_PUSHES)],
            stdout=subprocess.PIPE, text=True,
            # The client's library leaks, so leaks are not detected.
            env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_the_table_is_the_sum_of_all_pushes(self):
        processes = multiprocessing.get_context("fork")
        with Server(SERVE_TABLES) as server:
            with Client(server.address, EmbeddingTable) as calls:
                calls.create_table(spec(rows=MANY_ROWS))
            python = [processes.Process(target=run_client, args=(server.address, way, client))
                      for client, way in enumerate(WAYS)]
            self.assertEqual(len(python), N_PYTHON)
            for process in python:
                process.start()
            in_c = [self.start_c(server.address, N_PYTHON + i) for i in range(N_C)]
            for process in python:
                process.join()
                self.assertEqual(process.exitcode, 0)
            for process in in_c:
                self.assertEqual(process.communicate()[0], "ok\n")
            self.check_sum(server.address)

    def check_sum(self, address):
        expected = [0.0] * MANY_ROWS
        for client in range(N_PYTHON + N_C):
            for push in range(N_PUSHES):
                for row, value in push_of(client, push):
                    expected[row] -= value
        self.assertGreater(len(set(expected)), 10)
        with Client(address, EmbeddingTable) as calls:
            self.assertEqual(rows_of(calls, range(MANY_ROWS)),
                             [v for v in expected for _ in range(DIM)])


if __name__ == "__main__":
    junit.main()
