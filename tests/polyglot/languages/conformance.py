# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The conformance client in Python. README.md lists the checks.

    conformance.py HOST PORT TABLE
"""

import struct
import sys

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TTransport
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import (
    BagQuery, Initializer, InitializerKind, Pooling, TableSpec)
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.tensor.ttypes import (
    DType, Gradient, Optimizer, OptimizerKind, PushId, SparseTensor, Tensor)

BATCH = 2**53 + 1
LARGE = 5000000


def floats(shape, *values):
    return Tensor(DType.FLOAT32, shape, struct.pack("<%df" % len(values), *values))


def int64s(*values):
    return Tensor(DType.INT64, [len(values)], struct.pack("<%dq" % len(values), *values))


def expect(what, tensor, shape, *values):
    data = struct.pack("<%df" % len(values), *values)
    if tensor.dtype != DType.FLOAT32 or tensor.shape != shape or tensor.data != data:
        sys.exit("%s: %r" % (what, tensor))


def check_table(tables, name):
    tables.create_table(TableSpec(
        name=name, rows=10, dim=2, dtype=DType.FLOAT32,
        initializer=Initializer(InitializerKind.ZEROS),
        optimizer=Optimizer(OptimizerKind.SGD, 1.0)))
    gradient = SparseTensor(int64s(3, 7), floats([2, 2], 1, 2, 3, 4), [10, 2])
    for _ in range(2):
        tables.apply_row_gradients(name, gradient, PushId(name, BATCH))
    expect("rows", tables.lookup_rows(name, int64s(3, 7, 0)), [3, 2], -1, -2, -3, -4, 0, 0)
    query = BagQuery(name, int64s(3, 7, 7), int64s(0, 1), Pooling.SUM)
    expect("bags", tables.lookup_bags([query])[0], [2, 2], -1, -2, -6, -8)


def check_error(tables):
    try:
        tables.lookup_rows("missing", int64s(0))
    except ServiceError as failure:
        if failure.code == ErrorCode.NOT_FOUND and "missing" in failure.message:
            return
        raise
    sys.exit("a lookup in a missing table succeeded")


def check_averages(server):
    small = server.average_gradient(1, BATCH, 0, Gradient(dense=floats([3], 1, 2, 3)))
    expect("average", small.dense, [3], 2, 3, 4)
    ones = Tensor(DType.FLOAT32, [LARGE], struct.pack("<f", 1) * LARGE)
    large = server.average_gradient(1, BATCH, 1, Gradient(dense=ones)).dense
    if large.shape != [LARGE] or large.data != struct.pack("<f", 2) * LARGE:
        sys.exit("the large average is wrong")


def main(host, port, table):
    transport = TTransport.TFramedTransport(TSocket.TSocket(host, int(port)))
    protocol = TBinaryProtocolAccelerated(transport)
    transport.open()
    tables = EmbeddingTable.Client(TMultiplexedProtocol(protocol, "EmbeddingTable"))
    check_table(tables, table)
    check_error(tables)
    check_averages(ParameterServer.Client(TMultiplexedProtocol(protocol, "ParameterServer")))
    transport.close()
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
