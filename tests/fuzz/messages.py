# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Messages that Apache Thrift's own Python library (python3-thrift) writes."""

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TFramedTransport, TMemoryBuffer

BOOL, BYTE, I16, I32, I64, DOUBLE = (TType.BOOL, TType.BYTE, TType.I16, TType.I32, TType.I64,
                                     TType.DOUBLE)
STRING, STRUCT, LIST, SET, MAP = TType.STRING, TType.STRUCT, TType.LIST, TType.SET, TType.MAP

# A value is (type, content). The content is a number, text or bytes; for a struct, [(id, value),
# ...]; for a list or a set, (type, [content, ...]); for a map, (key type, value type, [(key
# content, value content), ...]).
MESSAGES = {
    "primitives": (TMessageType.CALL, "Service:method", 7, [
        (1, (BOOL, True)), (2, (BOOL, False)), (3, (BYTE, -5)), (4, (I16, -300)),
        (5, (I32, 100000)), (6, (I64, -(2**40))), (7, (DOUBLE, 1.25)), (8, (STRING, "h\u00e9llo")),
        (9, (STRING, "")), (40, (I32, 1)), (3000, (BOOL, True)), (3001, (STRUCT, []))]),
    "extremes": (TMessageType.ONEWAY, "m", 2**31 - 1, [
        (1, (BYTE, -128)), (2, (BYTE, 127)), (3, (I16, -(2**15))), (4, (I16, 2**15 - 1)),
        (5, (I32, -(2**31))), (6, (I32, 2**31 - 1)), (7, (I64, -(2**63))), (8, (I64, 2**63 - 1)),
        (9, (DOUBLE, float("-inf"))), (32767, (DOUBLE, 5e-324))]),
    "containers": (TMessageType.CALL, "m", 0, [
        (1, (LIST, (BOOL, [True, False, True]))), (2, (LIST, (BYTE, [1, -1, 0]))),
        (3, (SET, (I32, [5, -6]))), (4, (MAP, (STRING, DOUBLE, [("a", 0.5), ("b", -2.0)]))),
        (5, (MAP, (I32, STRUCT, []))), (6, (LIST, (I64, list(range(20))))),
        (7, (LIST, (LIST, [(I32, [1, 2]), (I32, []), (I32, [3])]))),
        (8, (MAP, (I16, STRUCT, [(1, [(1, (BOOL, False))]), (2, [])]))), (9, (LIST, (STRUCT, []))),
        (10, (LIST, (STRING, ["x", "", "yz"]))), (11, (MAP, (BYTE, BOOL, [(1, True), (2, False)]))),
        (12, (SET, (DOUBLE, [1.0])))]),
    "reply": (TMessageType.REPLY, "method", -1, [
        (0, (STRUCT, [(1, (LIST, (I64, [2, 2]))), (3, (STRING, "\x01\x02\x03"))]))]),
    "exception": (TMessageType.EXCEPTION, "method", 3,
                  [(1, (STRING, "unknown method")), (2, (I32, 1))]),
    "deep": (TMessageType.CALL, "m", 1, [
        (1, (STRUCT, [(1, (STRUCT, [(16, (STRUCT, [(17, (I32, 1))])), (17, (BOOL, True))])),
                      (2, (I32, 2))])),
        (20, (I32, 3))]),
}


def write_value(protocol, kind, content):
    if kind == STRUCT:
        protocol.writeStructBegin("")
        for number, (field_kind, field) in content:
            protocol.writeFieldBegin("", field_kind, number)
            write_value(protocol, field_kind, field)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
    elif kind in (LIST, SET):
        begin, end = ((protocol.writeListBegin, protocol.writeListEnd) if kind == LIST
                      else (protocol.writeSetBegin, protocol.writeSetEnd))
        begin(content[0], len(content[1]))
        for element in content[1]:
            write_value(protocol, content[0], element)
        end()
    elif kind == MAP:
        protocol.writeMapBegin(content[0], content[1], len(content[2]))
        for key, value in content[2]:
            write_value(protocol, content[0], key)
            write_value(protocol, content[1], value)
        protocol.writeMapEnd()
    else:
        {BOOL: protocol.writeBool, BYTE: protocol.writeByte, I16: protocol.writeI16,
         I32: protocol.writeI32, I64: protocol.writeI64, DOUBLE: protocol.writeDouble,
         STRING: protocol.writeString}[kind](content)


def message_bytes(factory, framed, message):
    kind, name, seqid, arguments = message
    memory = TMemoryBuffer()
    transport = TFramedTransport(memory) if framed else memory
    protocol = factory(transport)
    protocol.writeMessageBegin(name, kind, seqid)
    write_value(protocol, STRUCT, arguments)
    protocol.writeMessageEnd()
    transport.flush()
    return memory.getvalue()
