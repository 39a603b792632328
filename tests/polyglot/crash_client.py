# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""One client of crash_test (tests/integration/durable): pushes until the server has ended.

    crash_client ADDRESS CLIENT FIRST_SEQUENCE

Prints "acknowledged N" for each push, and "lost N" for the push without a reply. Pushes are
functions of CLIENT and N, which crash_test also computes.
"""

import logging
import sys

from peers import Client, tensor
from thrift.transport.TTransport import TTransportException
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import BagGradient, BagQuery, Pooling
from thriftps.tensor.ttypes import DType, PushId

ROWS, DIM = 200, 8


def ids(values):
    return tensor(values, dtype=DType.INT64)


def bags(table, pooling, n_bags, client, sequence):
    """Two rows per bag, with integer gradients."""
    rows = [(sequence * 7 + i * 13 + client * 5) % ROWS for i in range(2 * n_bags)]
    values = [float((sequence * 31 + i * 17) % 9 - 4) for i in range(n_bags * DIM)]
    offsets = range(0, 2 * n_bags, 2)
    query = BagQuery(table, ids(rows), ids(offsets), pooling)
    return BagGradient(query, tensor(values, [n_bags, DIM]))


def mark(client):
    query = BagQuery("marks", ids([client]), ids([0]), Pooling.SUM)
    return BagGradient(query, tensor([-1.0] * DIM, [1, DIM]))


def push_all(calls, client, sequence):
    while True:
        try:
            calls.apply_bag_gradients(
                [bags("shared", Pooling.SUM, 4, client, sequence),
                 bags("own%d" % client, Pooling.MEAN, 3, client, sequence), mark(client)],
                PushId("client%d" % client, sequence))
        except (TTransportException, OSError, EOFError):
            print("lost", sequence, flush=True)
            return
        print("acknowledged", sequence, flush=True)
        sequence += 1


def main(address, client, sequence):
    logging.getLogger("thrift").setLevel(logging.CRITICAL)
    with Client(address, EmbeddingTable) as calls:
        push_all(calls, int(client), int(sequence))


if __name__ == "__main__":
    main(*sys.argv[1:])
