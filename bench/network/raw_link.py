# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""One end of a plain TCP connection that sends N bytes in each direction at the same time; prints
the bytes per second. It shows how much of a link's rate TCP reaches on this machine.

    raw_link.py listen ADDRESS PORT N        raw_link.py connect ADDRESS PORT N
"""

import socket
import sys
import threading
import time

PATIENCE_S = 30


def connect(address):
    """The other end may start later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def accept(address):
    with socket.create_server(address) as listener:
        listener.settimeout(PATIENCE_S)
        return listener.accept()[0]


def send(link, n_bytes):
    chunk = memoryview(bytes(1 << 18))
    while n_bytes > 0:
        n_bytes -= link.send(chunk[:n_bytes])


def receive(link, n_bytes):
    chunk = bytearray(1 << 20)
    while n_bytes > 0:
        n_got = link.recv_into(chunk)
        if n_got == 0:
            raise OSError("the other end has closed the connection")
        n_bytes -= n_got


def main(role, host, port, n_bytes):
    address, n_bytes = (host, int(port)), int(n_bytes)
    link = accept(address) if role == "listen" else connect(address)
    link.settimeout(None)
    sender = threading.Thread(target=send, args=(link, n_bytes), daemon=True)
    began = time.monotonic()
    sender.start()
    receive(link, n_bytes)
    print(n_bytes / (time.monotonic() - began))
    sender.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
