# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Attackers: each function repeats one attack until it is stopped. They use only the wire.

An attack gets the server's addresses and a random number generator. It may raise any exception: the
server may refuse calls and close connections, and then the attacker starts again.
"""

import array
import os
import socket
import struct
import time

from peers import Client, dense, tensor
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import (BagGradient, BagQuery, Initializer, InitializerKind,
                                             Pooling, TableSpec)
from thriftps.node import Node
from thriftps.node.ttypes import ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.rendezvous import Rendezvous
from thriftps.tensor.ttypes import DType, PushId, SparseTensor, Tensor
from thriftps.trainer import Trainer
from thriftps.trainer.ttypes import TrainSpec

MIB = 1 << 20


def ids(values):
    return tensor(values, dtype=DType.INT64)


def zeros(name, rows, dim, dtype=DType.FLOAT32):
    return TableSpec(name, rows, dim, dtype, initializer=Initializer(InitializerKind.ZEROS))


def refused(call, *arguments):
    """Makes a call that may fail."""
    try:
        return call(*arguments)
    except ServiceError as failure:
        return failure


def raw_socket(address):
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address[len("unix:"):])
    else:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)))
    connection.settimeout(10)
    return connection


def call_frame(method, body, seqid=1):
    """A framed call in the binary protocol: `body` holds the fields of the arguments without the
    end."""
    name = method.encode()
    message = (struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">I", seqid) + body
               + b"\0")
    return struct.pack(">I", len(message)) + message


# ---- memory ---------------------------------------------------------------------------------


def huge_model(tcp, unix, dice):
    """Trainer.train with a model of 4 TiB in a few hundred bytes."""
    config = ('{"model_class": "LinearModel", '
              '"configurations": {"in_features": 1048576, "out_features": 1048576}}')
    spec = TrainSpec(
        pass_name="huge", rank=0, world_size=1, model_config=config, batches=[], steps_per_epoch=1,
        epochs=1, seed=0, trainer="DdpTrainer", trainer_config="", backend="gloo",
        preprocess_data="preprocess_dummy_data", create_criterion="l1",
        create_ddp_model="basic_ddp_model", hook_state="BasicHookState", ddp_hook="allreduce_hook",
        iteration_step="basic_iteration_step", servers=[], partition_by_trainer=False,
        first_bucket_mib=1.0, bucket_cap_mib=25.0, learning_rate=0.01, rpc_timeout_ms=1000,
        rendezvous="", reduce="mean")
    with Client(tcp, Trainer) as calls:
        for _ in range(20):
            refused(calls.train, spec)


def many_tiny_queries(tcp, unix, dice):
    """20 calls of 4 MiB with 50,000 tiny queries each, at the same time."""
    query = BagQuery("none", ids([0]), ids([0]), Pooling.SUM)
    connections = [Client(unix, EmbeddingTable) for _ in range(20)]
    for connection in connections:
        calls = connection.__enter__()
        calls.send_lookup_bags([query] * 50000)
    for connection in connections:
        connection.__exit__()


def waiting_gradients(tcp, unix, dice):
    """Small gradients that wait in rounds, from connections that end."""
    with Client(tcp, ParameterServer) as calls:
        batch = dice.randrange(1 << 40)
        for bucket in range(2000):
            calls.send_average_gradient(0, batch, bucket, dense([1.0] * 900))


def unread_lists(tcp, unix, dice):
    """Replies of list_tables that are not read."""
    with Client(unix, EmbeddingTable) as calls:
        for i in range(200):
            refused(calls.create_table, zeros("list/%d" % i + "x" * 200, 1, 1))
    connections = [Client(unix, EmbeddingTable) for _ in range(20)]
    for connection in connections:
        calls = connection.__enter__()
        for _ in range(500):
            calls.send_list_tables()
    time.sleep(1)
    for connection in connections:
        connection.__exit__()


def many_tables(tcp, unix, dice):
    """Tens of thousands of tables with one cell."""
    with Client(unix, EmbeddingTable) as calls:
        for i in range(20000):
            if isinstance(refused(calls.create_table, zeros("tiny/%d" % i, 1, 1)), ServiceError):
                break
        for i in range(20000):
            if isinstance(refused(calls.drop_table, "tiny/%d" % i), ServiceError):
                break


def large_tables_and_averages(tcp, unix, dice):
    """Tables up to their limit, and a large average in addition."""
    names = []
    with Client(unix, EmbeddingTable) as calls:
        for i in range(64):
            name = "large/%d" % i
            if isinstance(refused(calls.create_table, zeros(name, 16 * MIB // 64, 16)),
                          ServiceError):
                break
            names.append(name)
        with Client(tcp, ParameterServer) as averages:
            gradient = dense([0.0])
            gradient.dense = Tensor(dtype=DType.FLOAT32, shape=[20 * MIB], data=bytes(80 * MIB))
            averages.send_average_gradient(0, dice.randrange(1 << 40), 0, gradient)
            time.sleep(1)
        for name in names:
            refused(calls.drop_table, name)


def wide_rows(tcp, unix, dice):
    """Rows so long that the working space of a lookup exceeds the memory."""
    with Client(unix, EmbeddingTable) as calls:
        refused(calls.create_table, zeros("wide", 1, 1 << 26, DType.FLOAT16))
        refused(calls.lookup_bags, [BagQuery("wide", ids([0]), ids([0]), Pooling.SUM)])
        refused(calls.drop_table, "wide")
        refused(calls.create_table, zeros("mean", 1, 1 << 17))
        query = BagQuery("mean", Tensor(dtype=DType.INT64, shape=[1 << 16], data=bytes(8 << 16)),
                         ids([0]), Pooling.MEAN)
        gradient = Tensor(dtype=DType.FLOAT32, shape=[1, 1 << 17], data=bytes(4 << 17))
        refused(calls.apply_bag_gradients, [BagGradient(query, gradient)], None)
        refused(calls.drop_table, "mean")


def rendezvous_values(tcp, unix, dice):
    """Small values in large receive buffers, and many keys."""
    with Client(tcp, Rendezvous) as calls:
        for i in range(2000):
            refused(calls.put, "value/%d" % i, bytes(dice.choice((1, 5000, MIB))))
        refused(calls.remove, "value/")


def client_names(tcp, unix, dice):
    """Push ids with new client names each time."""
    with Client(unix, EmbeddingTable) as calls:
        refused(calls.create_table, zeros("names", 1, 1))
        gradient = SparseTensor(ids([0]), tensor([0.0], [1, 1]), [1, 1])
        for i in range(5000):
            refused(calls.apply_row_gradients, "names", gradient,
                    PushId("%x" % dice.getrandbits(128), 1))


# ---- delays of other clients ------------------------------------------------------------------


def abandoned_work(tcp, unix, dice):
    """Connections that end while their calls run."""
    with Client(tcp, Node) as calls:
        for _ in range(64):
            calls.send_get_metrics(True)


def abandoned_connections(tcp, unix, dice):
    """The same, many at a time, ended by a reset."""
    connections = []
    for _ in range(20):
        connection = raw_socket(tcp)
        connection.sendall(call_frame("Node:get_metrics", b"\x02\x00\x01\x01") * 64)
        connections.append(connection)
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def waiters(tcp, unix, dice):
    """Calls that wait for keys that never arrive, with the longest timeout."""
    with Client(tcp, Rendezvous) as calls:
        for i in range(64):
            calls.send_get("never/%d" % i, 0x7fffffff)
        with Client(tcp, Rendezvous) as others:
            for i in range(500):
                refused(others.put, "other/%d" % i, b"x")
            refused(others.remove, "other/")


def lingering_descriptors(tcp, unix, dice):
    """Descriptors that take long to close, sent over a Unix socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    stuck = socket.create_connection(listener.getsockname())
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30))
    stuck.setblocking(False)
    try:
        while True:
            stuck.send(bytes(65536))
    except BlockingIOError:
        pass
    connection = raw_socket(unix)
    for _ in range(8):
        connection.sendmsg([b"\0\0\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                          array.array("i", [stuck.fileno()]))])
    os.close(os.dup(stuck.fileno()))
    time.sleep(1)
    connection.close()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stuck.close()
    listener.close()


def half_messages(tcp, unix, dice):
    """Messages that start and never end, and random bytes."""
    connections = []
    for _ in range(50):
        connection = raw_socket(dice.choice((tcp, unix)))
        frame = call_frame("EmbeddingTable:list_tables", b"")
        connection.sendall(dice.choice((
            frame[:dice.randrange(len(frame))],
            struct.pack(">I", 200 * MIB) + frame[4:],
            bytes(dice.randrange(256) for _ in range(200)))))
        connections.append(connection)
    time.sleep(1)
    for connection in connections:
        connection.close()


def many_connections(tcp, unix, dice):
    """Connections that do nothing."""
    connections = [raw_socket(tcp) for _ in range(500)]
    time.sleep(1)
    for connection in connections:
        connection.close()


ATTACKS = [huge_model, many_tiny_queries, waiting_gradients, unread_lists, many_tables,
           large_tables_and_averages, wide_rows, rendezvous_values, client_names, abandoned_work,
           abandoned_connections, waiters, lingering_descriptors, half_messages, many_connections]
