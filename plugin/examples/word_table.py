# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""An embedding table in Python: pushes the gradient of a bag of words and looks the bag up.

    word_table.py HOST PORT
"""

import struct
import sys
import uuid

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TTransport
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import (
    BagGradient, BagQuery, Initializer, InitializerKind, Pooling, TableSpec)
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind, PushId, Tensor


def int64s(*values):
    return Tensor(DType.INT64, [len(values)], struct.pack("<%dq" % len(values), *values))


def main(host, port):
    transport = TTransport.TFramedTransport(TSocket.TSocket(host, int(port)))
    protocol = TBinaryProtocolAccelerated(transport)
    tables = EmbeddingTable.Client(TMultiplexedProtocol(protocol, "EmbeddingTable"))
    transport.open()

    # This call also succeeds if the table exists with the same specification.
    tables.create_table(TableSpec(
        name="words", rows=10000, dim=4, dtype=DType.FLOAT32,
        initializer=Initializer(InitializerKind.ZEROS),
        optimizer=Optimizer(OptimizerKind.SGD, 0.1)))

    # One bag of three words; its gradient is 1 in every column. A push id consists of a client
    # name, which no other process may ever use, and a sequence number, which must grow with every
    # push.
    bag = BagQuery("words", int64s(3, 141, 59), int64s(0), Pooling.SUM)
    ones = Tensor(DType.FLOAT32, [1, 4], struct.pack("<4f", 1, 1, 1, 1))
    tables.apply_bag_gradients([BagGradient(bag, ones)], PushId(str(uuid.uuid4()), 1))

    pooled = tables.lookup_bags([bag])[0]
    print(*("%.1f" % value for value in struct.unpack("<4f", pooled.data)))
    transport.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
