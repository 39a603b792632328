# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The first inputs of tls_fuzz: make_corpus.py writes them."""

import struct

# The flags of an input, the kinds of operations, and the types of records (tls_fuzz.c).
CLIENT, OLD = 1, 2
RAW, HELLO, OPEN, DAMAGED = (stage << 2 for stage in range(4))
SEAL, AS_IS, SEND, READING, END = range(5)
ALERT, HANDSHAKE, DATA = b"\x15", b"\x16", b"\x17"


def op(kind, content=b""):
    return struct.pack(">BH", kind, len(content)) + content


def sealed(kind, content):
    return op(SEAL, kind + content)


def handshake(kind, body):
    """A message of the handshake, in a sealed record."""
    return sealed(HANDSHAKE, bytes([kind]) + struct.pack(">I", len(body))[1:] + body)


def key_updates(request, n):
    return handshake(24, bytes([request])) * n


# Actions of a peer, client or server, after the handshake.
TLS_OPEN = {
    "data": sealed(DATA, b"bytes") + op(SEND, b"answer") + sealed(DATA, b"x" * 5000) + op(END),
    "many_records": sealed(DATA, b"x") * 40,
    "empty_records": sealed(DATA, b"") * 40 + sealed(DATA, b"x"),
    "padding": sealed(b"\0", b"bytes" + DATA + b"\0" * 100),
    "no_type": sealed(b"\0", b"\0" * 100),
    "oversize": sealed(DATA, b"x" * 16385),
    "key_updates": (key_updates(0, 20) + sealed(DATA, b"x") + key_updates(1, 20)
                    + sealed(DATA, b"y")),
    "unread_key_updates": (op(READING) + op(SEND, b"a" * 9000) + key_updates(1, 300) + op(READING)
                           + sealed(DATA, b"x")),
    "half_a_key_update": (sealed(HANDSHAKE, b"\x18\0\0\1") + op(SEND, b"late")
                          + sealed(HANDSHAKE, b"\1")),
    "bad_key_update": handshake(24, b"\2"),
    "ticket": handshake(4, struct.pack(">IIB8sH32sH", 60, 1, 8, b"n" * 8, 32, b"t" * 32, 0)),
    "request_of_certificate": handshake(13, b"\0\0\0"),
    "second_hello": handshake(1, b"\3\3" + b"r" * 32),
    "large_message": sealed(HANDSHAKE, b"\x04\xff\xff\xff" + b"x" * 100),
    "goodbye": sealed(DATA, b"bytes") + sealed(ALERT, b"\1\0") + op(SEND, b"late"),
    "alert": sealed(ALERT, b"\2\x28"),
    "warnings": sealed(ALERT, b"\1\x5a") * 8,
    "short_alert": sealed(ALERT, b"\1"),
    "change_cipher_spec": op(AS_IS, b"\x14\3\3\0\1\1"),
    "not_sealed": op(AS_IS, b"\x17\3\3\0\x20" + b"x" * 32),
    "cut": op(AS_IS, b"\x17\3\3\x40\0" + b"x" * 100) + op(END),
    "end": op(SEND, b"x" * 20000) + op(END),
}

# Actions in the middle of a handshake, with the keys of the handshake.
TLS_HELLO = {
    "data": sealed(DATA, b"early"),
    "empty_certificate": handshake(11, b"\0\0\0\0"),
    "certificate": handshake(11, b"\0\0\0\x0e\0\0\x09" + b"0" * 9 + b"\0\0"),
    "no_extensions": handshake(8, b"\0\0") + handshake(20, b"x" * 32),
    "extensions": handshake(8, b"\0\x06\0\x10\0\2\0\0"),
    "finished": handshake(20, b"x" * 32),
    "pieces": b"".join(sealed(HANDSHAKE, b"\0" if i else b"\x0b") for i in range(20)),
    "large_message": sealed(HANDSHAKE, b"\x0b\xff\xff\xff" + b"x" * 100),
    "key_update": key_updates(1, 2),
    "alert": sealed(ALERT, b"\2\x28"),
    "end": op(END),
}

# Bytes without a handshake.
TLS_RAW = {
    "plain": op(AS_IS, struct.pack(">I", 17) + b"\x80\1\0\1\0\0\0\4ping\0\0\0\1\0"),
    "oversize": op(AS_IS, b"\x16\3\1\xff\xff" + b"x" * 300),
    "empty": op(AS_IS, b"\x16\3\1\0\0" * 40),
    "old": op(AS_IS, b"\x16\2\0\0\5hello"),
    "large_hello": op(AS_IS, b"\x16\3\1\x40\0\1\xff\xff\xff" + b"x" * 300),
    "alert": op(AS_IS, b"\x15\3\3\0\2\2\x28"),
    "pieces": b"".join(op(AS_IS, bytes([byte])) for byte in b"\x16\3\1\0\5\1\0\0\1\3"),
    "end": op(AS_IS, b"\x16") + op(END),
}

# Damaged handshakes: offset and XOR, then the following bytes.
TLS_DAMAGED = {
    "none": op(AS_IS) + sealed(DATA, b"bytes"),
    "type": op(AS_IS, b"\0\0\1"),
    "length": op(AS_IS, b"\0\4\1"),
    "version": op(AS_IS, b"\0\x0a\1"),
    "random": op(AS_IS, b"\0\x10\1"),
    "ciphers": op(AS_IS, b"\0\x4c\xff\0\x4d\xff"),
    "extensions": op(AS_IS, b"\0\x60\xff\0\x80\xff\0\xa0\xff"),
    "late": op(AS_IS, b"\1\0\xff\1\x80\xff"),
}


def inputs():
    """Names and contents of all files."""
    stages = (("open", OPEN, TLS_OPEN), ("hello", HELLO, TLS_HELLO), ("raw", RAW, TLS_RAW),
              ("damaged", DAMAGED, TLS_DAMAGED))
    for role, flag in (("server", 0), ("client", CLIENT)):
        for stage, number, cases in stages:
            for name, ops in cases.items():
                yield "%s_%s_%s" % (stage, name, role), bytes([number | flag, 20]) + ops
        old = op(AS_IS) + op(SEND, b"x" * 5000) + op(AS_IS, b"\x16\3\3\0\4\0\0\0\0")
        yield "old_version_%s" % role, bytes([DAMAGED | OLD | flag, 9]) + old
        yield "small_receives_%s" % role, bytes([OPEN | flag, 1]) + TLS_OPEN["many_records"]
