#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the first files of the corpora scan and wire.

    tests/fuzz/make_corpus.py tests/fuzz/corpus

They are well-formed messages of python3-thrift. Inputs that the fuzzers found are added to the same
folders with -merge=1.
"""

import os
import struct
import sys

from messages import (BOOL, DOUBLE, I32, I64, LIST, MESSAGES, STRING, STRUCT, TBinaryProtocol,
                      TCompactProtocol, TMessageType, message_bytes)


def tensor(dtype, shape, data):
    return (STRUCT, [(1, (I32, dtype)), (2, (LIST, (I64, shape))), (3, (STRING, data))])


def shared(dtype, shape, segment, offset, length):
    """A tensor in a segment: 1 is the fuzzer's for requests, 2 for answers; both have a page."""
    return (STRUCT, [(1, (I32, dtype)), (2, (LIST, (I64, shape))),
                     (4, (STRUCT, [(1, (I64, segment)), (2, (I64, offset)), (3, (I64, length))]))])


def average(gradient):
    return [(1, (I32, 0)), (2, (I64, 5)), (3, (I32, 1)), (4, (STRUCT, gradient))]


# write_value() writes text, so the bytes of tensors are ASCII here, which serves as well.
FLOATS = "abcdefgh"
DENSE = (1, tensor(1, [2], FLOATS))
SPARSE = (2, (STRUCT, [(1, tensor(6, [1], "\0" * 8)), (2, tensor(1, [1, 2], FLOATS)),
                       (3, (LIST, (I64, [10, 2])))]))
PUSH = (3, (STRUCT, [(1, (STRING, "client")), (2, (I64, 4))]))
SPEC = [
    (1, (STRING, "pass")), (2, (I32, 0)), (3, (I32, 1)),
    (4, (STRING, '{"model_class": "DummyModel", "configurations": {"dim": 4, "scale": 0.5, '
                 '"sparse": true}}')),
    (5, (LIST, (STRUCT, [[(1, tensor(6, [1, 1], "\0" * 8)), (2, tensor(6, [1], "\0" * 8))]]))),
    (6, (I32, 1)), (7, (I32, 1)), (8, (I64, 3)), (9, (STRING, "DdpTrainer")),
    (10, (STRING, '{"a": "b"}')), (11, (STRING, "gloo")),
    (18, (LIST, (STRUCT, [[(1, (I32, 2)), (2, (STRING, "unix:/run/server"))]]))),
    (19, (BOOL, True)), (20, (DOUBLE, 1.0)), (23, (I32, 1000)), (25, (STRING, "mean"))]
STATUS = [(1, (I32, 4)), (2, (STRING, "pass")), (3, (I64, 1)), (4, (I64, 2)), (5, (I64, 3)),
          (6, (I32, 6)), (7, (STRING, "trainer 3 did not come")), (8, (DOUBLE, 0.5)),
          (9, (STRING, "0123456789abcdef"))]
SUMMARY = ([(1, (STRING, "group")), (2, (STRING, "name")), (3, (I64, 2))]
           + [(number, (DOUBLE, float(number))) for number in range(4, 11)]
           + [(11, (STRING, FLOATS * 2))])
INFO = [(1, (STRING, "server2")), (2, (STRING, "0.1.0")), (3, (I64, 1 << 28)),
        (4, (LIST, (STRING, ["Node", "Trainer"]))), (5, (LIST, (STRING, ["cpu"]))),
        (6, (I64, 4096)), (7, (I64, 1 << 30))]
OPTIMIZER = [(1, (I32, 4))] + [(number, (DOUBLE, 0.5)) for number in range(2, 11)]
TABLE = [(1, (STRING, "emb")), (2, (I64, 100)), (3, (I32, 4)), (4, (I32, 3)),
         (5, (STRUCT, [(1, (I32, 3)), (2, (DOUBLE, -1.0)), (3, (DOUBLE, 1.0)), (6, (I64, 7))])),
         (6, (STRUCT, OPTIMIZER))]
RANGE = [(7, (I64, 10)), (8, (I64, 6400)), (11, (I64, 50))]
HASH = [(9, (I32, 1)), (10, (I32, 3))]
QUERY = [(1, (STRING, "emb")), (2, tensor(6, [2], "\0" * 16)), (3, tensor(6, [1], "\0" * 8)),
         (4, (I32, 1)), (5, tensor(1, [2], FLOATS))]
BAG_GRADIENT = [(1, (STRUCT, QUERY)), (2, tensor(1, [1, 2], FLOATS))]
PARAMETER = [(1, (STRING, "w")), (2, tensor(1, [2], FLOATS))]

WIRE = {
    "average_dense": average([DENSE, (3, (DOUBLE, 1.0))]),
    "average_sparse": average([SPARSE]),
    "average_none": average([(3, (DOUBLE, 0.0))]),
    "average_large": average([(1, tensor(1, [1100], "x" * 4400))]),
    "average_result": [(0, (STRUCT, [DENSE]))],
    "put": [(1, (STRING, "key")), (2, (STRING, "value"))],
    "get": [(1, (STRING, "key")), (2, (I32, 100))],
    "add": [(1, (STRING, "key")), (2, (I64, -1)), PUSH],
    "train": [(1, (STRUCT, SPEC))],
    "status": [(0, (STRUCT, STATUS))],
    "metrics": [(0, (LIST, (STRUCT, [SUMMARY])))],
    "info": [(0, (STRUCT, INFO))],
    "optimizer": [(0, (STRUCT, OPTIMIZER))],
    "create_table": [(1, (STRUCT, TABLE + RANGE))],
    "create_hash_table": [(1, (STRUCT, TABLE + HASH))],
    "drop_table": [(1, (STRING, "emb"))],
    "list_tables": [(0, (LIST, (STRUCT, [TABLE + RANGE, TABLE + HASH])))],
    "lookup_bags": [(1, (LIST, (STRUCT, [QUERY, QUERY[:4]])))],
    "bags": [(0, (LIST, (STRUCT, [DENSE[1][1], DENSE[1][1]])))],
    "lookup_rows": [(1, (STRING, "emb")), QUERY[1]],
    "apply_rows": [(1, (STRING, "emb")), SPARSE, PUSH],
    "apply_bags": [(1, (LIST, (STRUCT, [BAG_GRADIENT]))), (2, PUSH[1])],
    "init_model": [(1, (LIST, (STRUCT, [PARAMETER]))), (2, (STRUCT, OPTIMIZER))],
    "update_model": [(1, (I32, 0)), (2, (LIST, (STRUCT, [PARAMETER[1][1][1]]))), PUSH,
                     (4, (I64, 1))],
    "average_shared": average([(1, shared(1, [16], 1, 64, 64))]),
    "average_shared_sparse": average([(2, (STRUCT, [
        (1, shared(6, [8], 1, 0, 64)), (2, shared(1, [8, 2], 1, 128, 64)),
        (3, (LIST, (I64, [1 << 62, 2])))]))]),
    "average_shared_answers": average([(1, shared(1, [16], 2, 0, 64))]),
    "average_shared_beyond": average([(1, shared(1, [32], 1, 4032, 128))]),
    "lookup_shared":
    [(1, (LIST, (STRUCT, [[QUERY[0], (2, shared(6, [2], 1, 0, 16)), (3, shared(6, [1], 1, 192, 8)),
                           QUERY[3]]])))],
    "open_segment": [(1, (I32, 1)), (2, (I32, 2)), (3, (I64, 1 << 20))],
    "open_lookup_segment": [(1, (I64, 1 << 20))],
    "segment": [(0, (STRUCT, [(1, (I64, 7)), (2, (I64, 1 << 20))]))],
    "segment_ids": [(1, (LIST, (I64, [1, 2, -3])))],
    "begin_transfer": [(1, (STRING, "transfer")), (2, (I64, 1 << 33)), (3, (I32, 9))],
    "put_chunk": [(1, (STRUCT,
                       [(1, (STRING, "transfer")), (2, (I32, 1)), (3, (I32, 9)), (4, (I32, -5)),
                        (5, (STRING, "bytes"))]))],
    "get_chunk": [(1, (STRING, "transfer")), (2, (I32, 3))],
    "large_answer": [(0, (STRUCT, [(1, (I64, 1 << 33)), (2, (I32, 9)), (3, (STRING, "bytes"))]))],
    "model": [(0, (STRUCT, [(1, (I64, 3)), (2, (LIST, (STRUCT, [PARAMETER])))]))],
}


def write(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def main():
    scan, wire = (os.path.join(sys.argv[1], name) for name in ("scan", "wire"))
    for name, message in MESSAGES.items():
        for protocol, factory in (("binary", TBinaryProtocol), ("compact", TCompactProtocol)):
            for framed in (True, False):
                data = message_bytes(factory, framed, message)
                write(scan, "%s_%s_%s" % (name, protocol, "framed" if framed else "unframed"), data)
    large = (TMessageType.CALL, "m", 1,
             [(1, (STRING, "x" * 5000)), (2, (STRING, "y" * 4096)), (3, (I32, 1))])
    for protocol, factory in (("binary", TBinaryProtocol), ("compact", TCompactProtocol)):
        write(scan, "bodies_%s" % protocol, message_bytes(factory, True, large) * 2)
        for name, arguments in WIRE.items():
            message = (TMessageType.CALL, "m", 1, arguments)
            write(wire, "%s_%s" % (name, protocol), message_bytes(factory, False, message))
    write(scan, "no_bytes", struct.pack(">i", 0))
    write(scan, "negative_length", struct.pack(">i", -1))


if __name__ == "__main__":
    main()
