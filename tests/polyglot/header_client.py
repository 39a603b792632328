# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A client that uses THeader, with the implementation of python3-thrift."""

from peers import WAIT_S
from thrift.protocol.THeaderProtocol import THeaderProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket
from thrift.transport.THeaderTransport import THeaderClientType, THeaderSubprotocolID

PROTOCOLS = {"binary": THeaderSubprotocolID.BINARY, "compact": THeaderSubprotocolID.COMPACT}


class HeaderClient:
    """A connection to one service whose calls carry `headers`, a dict of text. A context
    manager."""

    def __init__(self, address, service, protocol="binary", headers=None):
        host, _, port = address.rpartition(":")
        socket = TSocket.TSocket(host, int(port))
        socket.setTimeout(WAIT_S * 1000)
        self.headers = headers or {}
        self.protocol = THeaderProtocol(socket, (THeaderClientType.HEADERS,), PROTOCOLS[protocol])
        self.transport = self.protocol.trans
        self.calls = service.Client(
            TMultiplexedProtocol(self.protocol, service.__name__.rsplit(".", 1)[-1]))

    def call(self, name, *arguments):
        """The library clears the headers after each message, so they are set for each call."""
        for key, value in self.headers.items():
            self.protocol.set_header(key.encode(), value.encode())
        return getattr(self.calls, name)(*arguments)

    def __enter__(self):
        self.transport.open()
        return self

    def __exit__(self, *_):
        self.transport.close()
