# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Followers of a server's log: a copy has the bits of the server's tables, also after SIGKILL."""

import logging
import os
import random
import signal
import struct
import tempfile
import threading
import unittest

import junit
from log_follower import (APPLY_BAGS, APPLY_ROWS, ASSIGN_ROWS, CREATE_TABLE, DROP_TABLE, HOLE,
                          Follower)
from peers import WAIT_S, Call, Client, ErrorTest, Server, floats, sparse, tensor
from thrift.transport.TTransport import TTransportException
from thriftps.durability import Durability
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import (BagGradient, BagQuery, DurabilityMode, Initializer,
                                             InitializerKind, Pooling, TableSpec)
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind, PushId

ROWS, DIM = 40, 4
N_PUSHERS, N_PUSHES = 3, 80
PATIENCE_S = 300  # a timeout for operations that take much less
logging.getLogger("thrift").setLevel(logging.CRITICAL)  # killed servers are expected


def ids(values):
    return tensor(values, dtype=DType.INT64)


def spec(name, kind=OptimizerKind.SGD, learning_rate=1.0, rows=ROWS, dim=DIM, **more):
    epsilon = 1e-10 if kind == OptimizerKind.ADAGRAD else None
    return TableSpec(name, rows, dim, DType.FLOAT32, initializer=Initializer(InitializerKind.ZEROS),
                     optimizer=Optimizer(kind, learning_rate, epsilon=epsilon), **more)


class DataServer:
    """A server with a folder and an address that outlive it."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory()
        self.sockets = tempfile.TemporaryDirectory(dir="/tmp")  # paths of sockets must be short
        self.address = "unix:%s/server" % self.sockets.name
        self.flags = ["--data-dir=" + self.folder.name, "--log-segment-mib=1", *flags]
        self.start()

    def start(self):
        self.server = Server(*self.flags, listen=self.address)
        persist(EmbeddingTable, self.address, lambda calls: calls.list_tables())  # it has recovered

    def kill(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.wait()

    def durability(self):
        return Client(self.address, Durability, timeout_s=PATIENCE_S)

    def tables(self):
        return Client(self.address, EmbeddingTable, timeout_s=PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.cleanup()
        self.sockets.cleanup()


def persist(service, address, call, repeats=(ErrorCode.UNAVAILABLE,)):
    """Repeats a call across restarts of the server, with the same push id."""
    while True:
        try:
            with Client(address, service, timeout_s=PATIENCE_S) as calls:
                return call(calls)
        except (TTransportException, OSError, EOFError):
            pass
        except ServiceError as failure:
            if failure.code not in repeats:
                raise


def bags(draw, table):
    """Integer gradients of a few bags; a mean has 1, 2 or 4 rows."""
    pooling = draw.choice([Pooling.SUM, Pooling.MEAN])
    n_rows = [draw.choice([1, 2, 4]) for _ in range(draw.randrange(1, 4))]
    offsets = [sum(n_rows[:i]) for i in range(len(n_rows))]
    indices = [draw.randrange(ROWS) for _ in range(sum(n_rows))]
    values = [float(4 * draw.randrange(-3, 4)) for _ in range(len(n_rows) * DIM)]
    return BagGradient(BagQuery(table, ids(indices), ids(offsets), pooling),
                       tensor(values, [len(n_rows), DIM]))


def push(calls, client, sequence):
    """The same push for the same client and number."""
    draw = random.Random("%d/%d" % (client, sequence))
    push_id = PushId("py.%d" % client, sequence)
    name = draw.choice(["sgd", "adagrad"])
    if sequence % 3 == 0:
        rows = [draw.randrange(ROWS) for _ in range(5)]
        values = [float(draw.randrange(-4, 5)) for _ in range(5 * DIM)]
        calls.apply_row_gradients(name, sparse(rows, values, ROWS, DIM).sparse, push_id)
    elif sequence % 7 == 2:
        rows = [draw.randrange(ROWS) for _ in range(8)]
        values = tensor([float(draw.randrange(-9, 10)) for _ in range(8 * DIM)], [8, DIM])
        calls.assign_rows(name, ids(rows), values, draw.choice([0, 3 * sequence]), push_id)
    elif sequence % 10 == 1:
        calls.apply_bag_gradients([bags(draw, "none")], push_id)
    else:
        tables = ("sgd", "adagrad", "sgd")
        calls.apply_bag_gradients([bags(draw, table) for table in tables], push_id)


class Followers(unittest.TestCase):

    def test_a_copy_has_the_same_bits(self):
        with DataServer() as server:
            with server.tables() as calls:
                calls.create_table(spec("sgd"))
                calls.create_table(spec("adagrad", OptimizerKind.ADAGRAD, 0.1))
                calls.create_table(spec("none", durability=DurabilityMode.NONE))
                calls.create_table(spec("dropped"))
                calls.drop_table("dropped")
            follower, goal = Follower(), []
            self.progress, self.is_over = threading.Condition(), False
            following = Call(lambda: self.follow(server, follower, goal))
            pushing = [Call(lambda client=client: self.push_all(server, client))
                       for client in range(N_PUSHERS)]
            for lsn in (60, 120):
                with self.progress:
                    self.progress.wait_for(
                        lambda lsn=lsn: self.is_over or follower.next_lsn >= lsn, PATIENCE_S)
                if self.is_over:
                    following.wait()
                server.kill()
                server.start()
            for each in pushing:
                each.wait()
            goal.append(persist(Durability, server.address, lambda calls: calls.flush()))
            # Wakes the follower in case it already has all records.
            with server.tables() as calls:
                last = sparse([0], [1.0] * DIM, ROWS, DIM).sparse
                calls.apply_row_gradients("sgd", last, PushId("last", 1))
            following.wait()
            self.check(server, follower)

    def follow(self, server, follower, goal):
        try:
            while not goal or follower.next_lsn <= goal[0] + 1:
                persist(Durability, server.address,
                        lambda calls: follower.follow(calls, random.randrange(20000)))
                with self.progress:
                    self.progress.notify_all()
        finally:
            with self.progress:
                self.is_over = True
                self.progress.notify_all()

    def push_all(self, server, client):
        for sequence in range(N_PUSHES):
            persist(EmbeddingTable, server.address, lambda calls: push(calls, client, sequence))

    def test_a_follower_may_begin_with_a_snapshot(self):
        with DataServer() as server, server.durability() as log:
            with server.tables() as calls:
                calls.create_table(spec("sgd"))
                calls.create_table(spec("adagrad", OptimizerKind.ADAGRAD, 0.1))
                calls.create_table(spec("none", durability=DurabilityMode.NONE))
            pushing = [Call(lambda client=client: self.push_all(server, client))
                       for client in range(N_PUSHERS)]
            while log.flush() < 60:
                pass
            snapshot = log.snapshot(False)  # while pushes continue
            for each in pushing:
                each.wait()
            # All other pushes may have ended before the snapshot, so one more follows.
            with server.tables() as calls:
                last = sparse([0], [1.0] * DIM, ROWS, DIM).sparse
                calls.apply_row_gradients("sgd", last, PushId("last", 1))
            goal, follower = log.flush(), Follower()
            follower.begin(os.path.join(server.folder.name, "snapshots", snapshot.name))
            self.assertEqual(follower.next_lsn, snapshot.lsn + 1)
            self.assertLess(snapshot.lsn, goal)
            while follower.next_lsn <= goal:
                follower.follow(log)
            self.compare(server, follower)

    def check(self, server, follower):
        self.assertEqual(set(follower.tables), {"sgd", "adagrad", "none"})
        self.assertEqual(follower.kinds, {HOLE, CREATE_TABLE, DROP_TABLE, APPLY_ROWS, APPLY_BAGS,
                                          ASSIGN_ROWS})
        self.compare(server, follower)

    def compare(self, server, follower):
        with server.tables() as calls:
            for name in ("sgd", "adagrad"):
                table = follower.tables[name]
                self.assertGreater(len(set(map(tuple, table.values))), 10)
                looked_up = calls.lookup_rows_with_lsns(name, ids(range(ROWS)))
                values = [value for row in table.values for value in row]
                self.assertEqual(struct.pack("<%df" % (ROWS * DIM), *values), looked_up.rows.data)
                self.assertEqual(struct.pack("<%dq" % ROWS, *table.lsns), looked_up.lsns.data)

    def test_followers_wait_without_workers(self):
        with DataServer("--workers=1", "--io-threads=1") as server:
            with server.tables() as calls:
                calls.create_table(spec("sgd"))
                followers = [Follower() for _ in range(20)]
                for follower in followers:
                    with server.durability() as log:
                        follower.follow(log)
                    self.assertEqual(follower.next_lsn, 2)
                waiting = [Call(lambda each=each: self.follow_once(server, each))
                           for each in followers]
                one = sparse([1], [-1.0] * DIM, ROWS, DIM).sparse
                for sequence in range(3):  # the only worker is free for these
                    calls.apply_row_gradients("sgd", one, PushId("me", sequence))
                for each in waiting:
                    self.assertGreaterEqual(each.wait(), 1)
            for follower in followers:
                self.assertGreaterEqual(follower.tables["sgd"].values[1][0], 1.0)

    def follow_once(self, server, follower):
        with server.durability() as calls:
            return follower.follow(calls, wait_ms=1000 * WAIT_S)

    def test_a_follower_that_waits_does_not_hold_up_the_end(self):
        server = DataServer()
        with server.durability() as calls:
            waiting = Call(lambda: calls.read_log(1, 1000, 1000 * WAIT_S))
            with server.durability() as others:
                self.assertEqual(others.read_log(1, 1000, 0).next_lsn, 1)
            server.__exit__()
            with self.assertRaises((ServiceError, TTransportException)):
                waiting.wait()


class Errors(ErrorTest):

    def test_a_cursor_that_is_too_old_names_the_oldest(self):
        large = sparse(list(range(4000)), [1.0] * (4000 * 64), 4000, 64).sparse  # 1 MB
        with DataServer() as server, server.tables() as calls, server.durability() as log:
            calls.create_table(spec("large", rows=4000, dim=64))
            for sequence in range(4):
                calls.apply_row_gradients("large", large, PushId("me", sequence))
            first = log.snapshot(False)
            second = persist(Durability, server.address, lambda again: again.snapshot(False),
                             repeats=(ErrorCode.RESOURCE_EXHAUSTED,))  # the first has just ended
            self.assertLessEqual(first.lsn, second.lsn)
            failure = self.assert_fails(ErrorCode.STALE, lambda: log.read_log(1, 1000, 0),
                                        "LSN 1", "snapshot")
            batch = log.read_log(second.lsn + 1, 1000, 0)
            self.assertIn("the oldest is %d" % batch.oldest_lsn, failure.message)
            self.assertEqual((batch.next_lsn, batch.durable_lsn), (second.lsn + 1, second.lsn))
            # The record is longer than the maximum of one read.
            longest = log.read_log(batch.oldest_lsn, 1, 0)
            self.assertEqual(longest.next_lsn, batch.oldest_lsn + 1)
            self.assertGreater(len(longest.records), 1000000)

    def test_arguments(self):
        with DataServer() as server, server.durability() as log:
            for arguments, words in (((0, 1000, 0), ("cursor: 0",)),
                                     ((7, 1000, 0), ("cursor: 7", "[1, 1]")),
                                     ((1, -1, 0), ("max_bytes",)),
                                     ((1, 1000, -1), ("wait_ms",))):
                self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                                  lambda arguments=arguments: log.read_log(*arguments), *words)
            empty = log.read_log(1, 1000, 1)
            self.assertEqual((empty.records, empty.next_lsn), (b"", 1))
            self.assertEqual((empty.durable_lsn, empty.oldest_lsn), (0, 1))
            self.assertRegex(empty.log, "^[0-9a-f]{32}$")


if __name__ == "__main__":
    junit.main()
