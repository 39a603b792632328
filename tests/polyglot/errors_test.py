# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Every error of the contract that averaging and the rendezvous can produce arrives typed, with
every transport and protocol."""

import os
import re
import unittest
import urllib.request

import junit
from peers import TALKS, WAIT_S, Client, ErrorTest, Server, Waiting, dense, sparse, tensor
from thrift.Thrift import TApplicationException
from thriftps.embedding_table import EmbeddingTable
from thriftps.node.ttypes import ErrorCode
from thriftps.parameter_server import ParameterServer
from thriftps.rendezvous import Rendezvous
from thriftps.tensor.ttypes import DType, Gradient, PushId, SparseTensor, Tensor

# A description, a gradient, and a word that the message must contain.
BAD_GRADIENTS = [
    ("missing argument", None, "gradient"),
    ("neither dense nor sparse", Gradient(), "gradient"),
    ("both", Gradient(dense=tensor([1]), sparse=sparse([0], [1], 1, 1).sparse), "gradient"),
    ("unknown dtype", Gradient(dense=Tensor(77, [1], b"\0" * 4)), "dtype"),
    ("no dtype", Gradient(dense=Tensor(None, [1], b"\0" * 4)), "dtype"),
    ("integers", dense([1], dtype=DType.INT32), "INT32"),
    ("no bytes", Gradient(dense=Tensor(DType.FLOAT32, [1], None)), "data"),
    ("too few bytes", Gradient(dense=Tensor(DType.FLOAT32, [2], b"\0" * 7)), "7"),
    ("too many bytes", Gradient(dense=Tensor(DType.FLOAT32, [2], b"\0" * 12)), "12"),
    ("negative dimension", Gradient(dense=Tensor(DType.FLOAT32, [-1], b"")), "-1"),
    ("overflowing shape", Gradient(dense=Tensor(DType.FLOAT32, [2 ** 40, 2 ** 40], b"")), "shape"),
    ("nine dimensions", Gradient(dense=Tensor(DType.FLOAT32, [1] * 9, b"\0" * 4)), "9"),
    ("index too large", sparse([5], [1], 5, 1), "5"),
    ("negative index", sparse([-1], [1], 5, 1), "-1"),
    ("indices of another type",
     Gradient(sparse=SparseTensor(tensor([0], dtype=DType.INT32), tensor([1], [1, 1]), [5, 1])),
     "indices"),
    ("fewer indices than rows",
     Gradient(sparse=SparseTensor(tensor([0], dtype=DType.INT64), tensor([1, 2], [2, 1]), [5, 1])),
     "values"),
    ("rows of another width",
     Gradient(sparse=SparseTensor(tensor([0], dtype=DType.INT64), tensor([1, 2], [1, 2]), [5, 1])),
     "shape"),
    ("negative weight", Gradient(dense=tensor([1]), weight=-1.0), "weight"),
    ("weight that is no number", Gradient(dense=tensor([1]), weight=float("nan")), "weight"),
    ("infinite weight", Gradient(dense=tensor([1]), weight=float("inf")), "weight"),
    ("weight beyond FLOAT32", Gradient(dense=tensor([1]), weight=1e40), "weight"),
    ("weight that is zero as FLOAT32", Gradient(dense=tensor([1]), weight=1e-46), "weight"),
]


class InvalidArgument(ErrorTest):

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--ntrainer=1")

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def test_gradients(self):
        for way in TALKS:
            for what, gradient, word in BAD_GRADIENTS:
                with self.subTest(way=way, what=what), \
                        Client(self.server.address, ParameterServer, way) as calls:
                    self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                                      lambda g=gradient: calls.average_gradient(0, 0, 0, g), word)

    def test_trainer(self):
        with Client(self.server.address, ParameterServer) as calls:
            for trainer, word in ((1, "1"), (-1, "-1"), (2 ** 31 - 1, "2147483647"),
                                  (None, "trainer")):
                with self.subTest(trainer=trainer):
                    self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                                      lambda t=trainer: calls.average_gradient(t, 0, 0, dense([1])),
                                      word)

    def test_batch_and_param_loc(self):
        with Client(self.server.address, ParameterServer) as calls:
            for batch, param_loc, word in ((-1, 0, "batch"), (None, 0, "batch"),
                                           (0, -1, "param_loc"), (0, None, "param_loc")):
                with self.subTest(batch=batch, param_loc=param_loc):
                    self.assert_fails(
                        ErrorCode.INVALID_ARGUMENT,
                        lambda b=batch, p=param_loc: calls.average_gradient(0, b, p, dense([1])),
                        word)

    def test_the_connection_goes_on(self):
        for way in TALKS:
            with self.subTest(way=way), Client(self.server.address, ParameterServer, way) as calls:
                self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                                  lambda: calls.average_gradient(0, 0, 0, None))
                calls.reset_state()
                self.assertEqual(calls.average_gradient(0, 1, 0, dense([1])).dense, tensor([1]))

    def test_other_bytes_in_the_same_round(self):
        with Client(self.server.address, ParameterServer) as calls:
            calls.reset_state()
            first = calls.average_gradient(0, 7, 0, dense([1, 2]))
            self.assertEqual(calls.average_gradient(0, 7, 0, dense([1, 2])), first)
            self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                              lambda: calls.average_gradient(0, 7, 0, dense([1, 3])))

    def test_all_weights_zero(self):
        with Client(self.server.address, ParameterServer) as calls:
            calls.reset_state()
            self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                              lambda: calls.average_gradient(0, 1, 0, Gradient(weight=0.0)))

    def test_rendezvous(self):
        with Client(self.server.address, Rendezvous) as store:
            for what, call in (
                    ("key", lambda: store.put("white space", b"")),
                    ("key", lambda: store.put("k" * 256, b"")),
                    ("key", lambda: store.put(None, b"")),
                    ("value", lambda: store.put("key", None)),
                    ("timeout_ms", lambda: store.get("key", -1))):
                with self.subTest(what=what):
                    self.assert_fails(ErrorCode.INVALID_ARGUMENT, call, what)

    def test_sum_of_what_is_no_number(self):
        with Client(self.server.address, Rendezvous) as store:
            # strtoll() would accept some of these values.
            for text in (b"abc", b"12\0", b"12\0x", b"12 ", b" 12", b"", b"+", b"1" * 32,
                         b"%d" % (2 ** 63 - 1)):
                store.put("text", text)
                self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: store.add("text", 1, None))
                self.assertEqual(store.get("text", 0), text)


class RoundsServer(Server):
    """A server whose gauge of waiting calls can be read."""

    def __init__(self, *flags):
        super().__init__("--http=127.0.0.1:0", *flags)
        self.url = self.process.stdout.readline()[len("listening on "):].strip() + "/metrics"

    def await_calls(self):
        """Returns when a call takes part in a round: generated code begins calls in any order."""
        waits = re.compile(r"^thriftps_rounds_waiting_calls{[^}]*} [1-9]", re.MULTILINE)
        while True:
            with urllib.request.urlopen(self.url, timeout=WAIT_S) as answer:
                if waits.search(answer.read().decode()):
                    return


class Rounds(ErrorTest):
    """A server of two trainers, of which the second is mostly absent."""

    def test_shapes_that_differ_name_both(self):
        for gradient, words in ((dense([1, 2, 3]), ("[3]", "[2]")),
                                (dense([1, 2], dtype=DType.FLOAT64), ("FLOAT64", "FLOAT32")),
                                (sparse([0], [1], 2, 1), ("sparse", "dense"))):
            with self.subTest(words=words), RoundsServer("--ntrainer=2") as server:
                with Waiting(server.address, 0, 0, 0, dense([1, 2])) as waiting, \
                        Client(server.address, ParameterServer) as second:
                    server.await_calls()
                    self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                                      lambda g=gradient: second.average_gradient(1, 0, 0, g),
                                      *words)
                    second.average_gradient(1, 0, 0, dense([3, 4]))
                    self.assertEqual(waiting.wait().dense, tensor([2, 3]))

    def test_deadline_names_the_missing(self):
        for way in TALKS:
            with self.subTest(way=way), Server("--ntrainer=3", "--rpc-timeout=1") as server:
                with Client(server.address, ParameterServer, way) as calls:
                    self.assert_fails(ErrorCode.DEADLINE_EXCEEDED,
                                      lambda: calls.average_gradient(1, 0, 0, dense([1])), "0", "2")
                    # The round must stay closed ...
                    self.assert_fails(ErrorCode.DEADLINE_EXCEEDED,
                                      lambda: calls.average_gradient(0, 0, 0, dense([1])))

    def test_reset_aborts(self):
        for way in TALKS:
            with self.subTest(way=way), RoundsServer("--ntrainer=2") as server:
                with Waiting(server.address, 0, 0, 0, dense([1]), way) as waiting, \
                        Client(server.address, ParameterServer) as calls:
                    server.await_calls()
                    calls.reset_state()
                    self.assert_fails(ErrorCode.ABORTED, waiting.wait)

    def test_newer_batch_aborts_and_names_the_missing(self):
        for way in TALKS:
            with self.subTest(way=way), RoundsServer("--ntrainer=3") as server, \
                    Waiting(server.address, 0, 5, 0, dense([1]), way) as older:
                server.await_calls()
                with Waiting(server.address, 1, 6, 0, dense([2]), way) as newer:
                    self.assert_fails(ErrorCode.ABORTED, older.wait, "1", "2")
                    with Waiting(server.address, 0, 6, 0, dense([3])) as second, \
                            Client(server.address, ParameterServer) as third:
                        average = third.average_gradient(2, 6, 0, dense([4]))
                        self.assertEqual(average.dense, tensor([3]))
                        self.assertEqual(second.wait(), average)
                        self.assertEqual(newer.wait(), average)

    def test_older_batch_is_stale(self):
        for way in TALKS:
            with self.subTest(way=way), Server("--ntrainer=1") as server:
                with Client(server.address, ParameterServer, way) as calls:
                    for batch in (0, 1, 2):
                        calls.average_gradient(0, batch, 0, dense([1]))
                    self.assert_fails(ErrorCode.STALE,
                                      lambda: calls.average_gradient(0, 0, 0, dense([1])))


class Others(ErrorTest):

    def test_not_found(self):
        for way in TALKS:
            with self.subTest(way=way), Server() as server:
                with Client(server.address, Rendezvous, way) as store:
                    self.assert_fails(ErrorCode.NOT_FOUND, lambda: store.get("no-such-key", 0),
                                      "no-such-key")

    def test_get_ends_by_its_timeout(self):
        with Server() as server, Client(server.address, Rendezvous) as store:
            self.assert_fails(ErrorCode.DEADLINE_EXCEEDED, lambda: store.get("no-such-key", 20),
                              "no-such-key")

    def test_duplicate_and_stale_push(self):
        with Server() as server, Client(server.address, Rendezvous) as store:
            store.add("sum", 5, PushId("me", 1))
            self.assertEqual(store.add("sum", 1, PushId("me", 2)), 6)
            self.assertEqual(store.add("sum", 5, PushId("me", 1)), 5, "the first reply again")
            self.assert_fails(ErrorCode.DUPLICATE, lambda: store.add("sum", 2, PushId("me", 1)),
                              "me")
            store.add("sum", 1, PushId("me", 5000))
            self.assert_fails(ErrorCode.STALE, lambda: store.add("sum", 1, PushId("me", 2)), "me")

    @unittest.skipIf("THRIFTPS_IS_GENERATED" in os.environ,
                     "TpsServer refuses calls of added processors with TApplicationException")
    def test_what_never_fits_says_which_bound(self):
        for way in TALKS:
            with self.subTest(way=way), Server("--ntrainer=2", "--max-pending-mib=1") as server:
                with Client(server.address, ParameterServer, way) as calls:
                    failure = self.assert_fails(
                        ErrorCode.RESOURCE_EXHAUSTED,
                        lambda: calls.average_gradient(0, 0, 0, dense([0.0] * (1 << 19))),
                        "--max-pending-mib", str(1 << 20))
                    self.assertIsNone(failure.retry_after_ms)  # a retry is useless
                    calls.reset_state()  # the connection is still usable

    def test_value_beyond_the_store(self):
        with Server() as server, Client(server.address, Rendezvous) as store:
            self.assert_fails(ErrorCode.RESOURCE_EXHAUSTED,
                              lambda: store.put("key", b"x" * (2 << 20)))

    def test_unavailable_at_sigterm(self):
        for way in TALKS:
            with self.subTest(way=way), RoundsServer("--ntrainer=2") as server:
                with Waiting(server.address, 0, 0, 0, dense([1]), way) as waiting:
                    server.await_calls()
                    server.terminate()
                    self.assert_fails(ErrorCode.UNAVAILABLE, waiting.wait)
                    self.assertEqual(server.process.wait(WAIT_S), 0)

    def test_signal_right_after_the_start(self):
        for _ in range(20):
            with Server():
                pass  # the end of the block checks the exit code

    def test_unknown_methods(self):
        for way in TALKS:
            with self.subTest(way=way), Server("--services=Node,ParameterServer") as server:
                with Client(server.address, EmbeddingTable, way) as table:
                    with self.assertRaises(TApplicationException) as raised:
                        table.list_tables()
                    self.assertEqual(raised.exception.type, TApplicationException.UNKNOWN_METHOD)


if __name__ == "__main__":
    junit.main()
