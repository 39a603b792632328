# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Tables that are sharded over several servers, with generated code and NumPy.

    split_tables.py HOST:PORT HOST:PORT...

The program trains the model of train_recommender.py: a user likes an item with the probability
sigmoid(user . item). Each server has one range of the rows of `users` and `items`.
"""

import sys
import uuid

import numpy
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TTransport
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import Initializer, InitializerKind, TableSpec
from thriftps.tensor.ttypes import (
    DType, Optimizer, OptimizerKind, PushId, SparseTensor, Tensor)

USERS, ITEMS, DIM = 200, 100, 8
STEPS, BATCH = 400, 256


def ids_tensor(ids):
    return Tensor(DType.INT64, [len(ids)], numpy.asarray(ids, "<i8").tobytes())


def connect(address):
    host, _, port = address.rpartition(":")
    transport = TTransport.TFramedTransport(TSocket.TSocket(host, int(port)))
    transport.open()
    protocol = TBinaryProtocolAccelerated(transport)
    return EmbeddingTable.Client(TMultiplexedProtocol(protocol, "EmbeddingTable"))


class Table:
    """One table, sharded over servers: server s has shard_rows rows from s * shard_rows on."""

    def __init__(self, servers, name, rows):
        self.servers, self.name, self.rows = servers, name, rows
        self.shard_rows = -(-rows // len(servers))
        # A push id consists of a client name, which no other process may ever use, and a sequence
        # number, which must grow with every push.
        self.client, self.sequence = "%s-%s" % (name, uuid.uuid4()), 0
        for s, server in enumerate(servers):
            first = s * self.shard_rows
            server.create_table(TableSpec(
                name=name, rows=rows, dim=DIM, dtype=DType.FLOAT32,
                first_row=first, shard_rows=min(self.shard_rows, rows - first),
                initializer=Initializer(InitializerKind.NORMAL, stdev=0.1, seed=7),
                optimizer=Optimizer(OptimizerKind.ADAGRAD, 0.3)))

    def look_up(self, ids):
        """Returns the rows of the ids, [len(ids), DIM]. The ids in calls are those of the whole
        table, not of a shard.
        """
        rows = numpy.empty([len(ids), DIM], "<f4")
        for s, server in enumerate(self.servers):
            here = ids // self.shard_rows == s
            if here.any():
                answer = server.lookup_rows(self.name, ids_tensor(ids[here]))
                rows[here] = numpy.frombuffer(answer.data, "<f4").reshape(-1, DIM)
        return rows

    def push(self, ids, gradients):
        """One step of the optimizer; gradients of equal ids are added up."""
        self.sequence += 1
        for s, server in enumerate(self.servers):
            here = ids // self.shard_rows == s
            if here.any():
                values = numpy.ascontiguousarray(gradients[here], "<f4")
                tensor = Tensor(DType.FLOAT32, list(values.shape), values.tobytes())
                server.apply_row_gradients(
                    self.name, SparseTensor(ids_tensor(ids[here]), tensor, [self.rows, DIM]),
                    PushId(self.client, self.sequence))


class Taste:
    """Synthetic data: there are four kinds of users and items, and users like items of their kind.
    """

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)

    def sample(self):
        users = self.random.integers(0, USERS, BATCH)
        items = self.random.integers(0, ITEMS, BATCH)
        probability = numpy.where(users % 4 == items % 4, 0.9, 0.1)
        return users, items, (self.random.random(BATCH) < probability).astype("<f4")


def predict(user_rows, item_rows):
    return 1 / (1 + numpy.exp(-(user_rows * item_rows).sum(axis=1)))


def train(users, items):
    taste = Taste(seed=1)
    for step in range(STEPS + 1):
        user_ids, item_ids, liked = taste.sample()
        user_rows, item_rows = users.look_up(user_ids), items.look_up(item_ids)
        p = predict(user_rows, item_rows)
        if step % 100 == 0:
            loss = -numpy.log(numpy.where(liked == 1, p, 1 - p)).mean()
            print("step %3d  loss %.2f" % (step, loss), flush=True)
        error = (p - liked)[:, None] / BATCH
        users.push(user_ids, error * item_rows)
        items.push(item_ids, error * user_rows)


def main(*addresses):
    servers = [connect(address) for address in addresses]
    train(Table(servers, "users", USERS), Table(servers, "items", ITEMS))


if __name__ == "__main__":
    main(*sys.argv[1:])
