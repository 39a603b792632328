# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The secrets of a server and of its callers.

The private key of a server is only in the one place where OpenSSL has it. The token of a caller is
nowhere after the call that it came with.
"""

import errno
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest

import junit

PROGRAM = os.path.abspath(os.environ["THRIFTPS_SERVER"])
WAIT_S = 60
N_BYTES = 32  # of a secret; no other place has these bytes by chance

# Arguments of `openssl req`, and the name of the secret number in the output of `openssl pkey`.
KINDS = {
    "P-256": (["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "priv"),
    "RSA": (["rsa:2048"], "privateExponent"),
    "Ed25519": (["ed25519"], "priv"),
}


def make_certificate(folder, arguments):
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", *arguments, "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return key, certificate


def read_number(key, name):
    """The bytes of a number of a key, the most significant one first."""
    text = subprocess.run(["openssl", "pkey", "-in", key, "-noout", "-text"],
                          check=True, capture_output=True, text=True).stdout
    digits = re.search(name + r":\s*\n((?:\s+[0-9a-f:]+\n)+)", text).group(1)
    return bytes.fromhex(re.sub(r"[\s:]", "", digits)).lstrip(b"\0")


class Process:
    """A server with a key, whose log goes to a file. A context manager."""

    def __init__(self, folder, key, certificate, *flags):
        self.log = os.path.join(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--listen=127.0.0.1:0", "--log-level=debug", "--tls=allowed",
                 "--tls-cert=" + certificate, "--tls-key=" + key, *flags],
                stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2])

    def connect(self, encrypts):
        plain = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        if not encrypts:
            return plain
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(plain)

    def shake_hands(self):
        """Until the end of the connection, which the server has seen then."""
        with self.connect(True) as encrypted:
            encrypted.sendall(b"\0\0\0\0")  # a frame without a message
            self.expect_end(encrypted)
            return encrypted.getpeercert(True)

    def fail_to_shake_hands(self):
        with socket.create_connection(("127.0.0.1", self.port), WAIT_S) as plain:
            plain.sendall(b"\x16\x03\x01\x00\x05hello")
            self.expect_end(plain)

    @staticmethod
    def expect_end(connection):
        while connection.recv(4096):
            pass

    def wait_for_log(self, text):
        with open(self.log, encoding="utf-8") as log:
            while text not in log.read():
                log.seek(0)
                if self.process.poll() is not None:
                    raise AssertionError("the server has ended")

    def read_file(self, name):
        with open("/proc/%d/%s" % (self.process.pid, name), "rb") as file:
            return file.read()

    def regions(self):
        """The bytes of each part of its memory that it may write to. An OSError with EIO: it has
        given one of them back meanwhile."""
        maps = self.read_file("maps").decode().splitlines()
        with open("/proc/%d/mem" % self.process.pid, "rb", 0) as memory:
            for line in maps:
                place, rights = line.split()[:2]
                if rights.startswith("rw"):
                    first, last = (int(end, 16) for end in place.split("-"))
                    memory.seek(first)
                    yield memory.read(last - first)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)
        self.process.stdout.close()


class Keys(unittest.TestCase):

    def check(self, process, lines, number):
        self.assertTrue(lines)
        with open(process.log, "rb") as log:
            for text in (log.read(), process.read_file("cmdline"), process.read_file("environ")):
                for line in lines:
                    self.assertNotIn(line, text)
        self.assertEqual(self.count_numbers(process, lines, number), 1)

    def count_numbers(self, process, lines, number):
        for is_last in [False] * 20 + [True]:
            n_numbers = 0
            try:
                for region in process.regions():
                    for line in lines:
                        self.assertNotIn(line[:N_BYTES], region)
                    for secret in (number[:N_BYTES], number[::-1][:N_BYTES]):
                        n_numbers += region.count(secret)
                return n_numbers
            except OSError as error:
                if error.errno != errno.EIO or is_last:
                    raise
        return None

    def run_server(self, arguments, name):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = make_certificate(folder, arguments)
            with open(key, "rb") as file:
                lines = [line for line in file.read().splitlines()[1:-1] if len(line) >= N_BYTES]
            number = read_number(key, name)
            with Process(folder, key, certificate) as process:
                for _ in range(5):
                    process.shake_hands()
                    process.fail_to_shake_hands()
                self.check(process, lines, number)
                process.process.send_signal(signal.SIGHUP)
                process.wait_for_log("certificate")
                process.shake_hands()
                self.check(process, lines, number)

    def test_are_nowhere_else(self):
        for kind, (arguments, name) in KINDS.items():
            with self.subTest(kind=kind):
                try:
                    self.run_server(arguments, name)
                except PermissionError as error:
                    self.skipTest("memory cannot be read: %s" % error)


def frame(name, arguments=b""):
    """A framed call in the binary protocol; `arguments` are the fields of its struct."""
    message = struct.pack(">Ii%dsi" % len(name), 0x80010001, len(name), name, 1) + arguments + b"\0"
    return struct.pack(">i", len(message)) + message


def header_frame(key, value, name):
    """The same call without arguments, in a frame of THeader with one pair of key and value."""
    pair = bytes([len(key)]) + key + bytes([len(value)]) + value
    header = b"\0\0" + b"\1\1" + pair  # binary, no transforms; one block with one key-value pair
    header += bytes(-len(header) % 4)
    body = struct.pack(">HHiH", 0x0fff, 0, 1, len(header) // 4) + header + frame(name)[4:]
    return struct.pack(">i", len(body)) + body


def receive(connection):
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
        more = connection.recv(4096)
        if not more:
            raise AssertionError("the server has closed the connection")
        answer += more
    return answer


class Tokens(unittest.TestCase):

    def call(self, connection, token):
        """Sends a token. The reply to a later call shows that the server is done with it."""
        field = struct.pack(">bhi", 11, 1, len(token)) + token
        connection.sendall(frame(b"Session:authenticate", field))
        answer = receive(connection)
        connection.sendall(frame(b"Node:describe"))
        receive(connection)
        return answer

    def call_with_header(self, connection, token):
        connection.sendall(header_frame(b"authorization", b"Bearer " + token, b"Node:describe"))
        answer = receive(connection)
        connection.sendall(frame(b"Node:describe"))
        receive(connection)
        return answer

    def check(self, process, token):
        n_found = sum(region.count(token[:N_BYTES]) for region in process.regions())
        self.assertEqual(n_found, 0)
        for name in ("cmdline", "environ"):
            self.assertNotIn(token, process.read_file(name))
        with open(process.log, "rb") as log:
            self.assertNotIn(token, log.read())

    def use(self, process, connection, token, is_known):
        answer = self.call(connection, token)
        self.assertEqual(b"token: unknown" not in answer, is_known, answer)
        self.check(process, token)

    def use_header(self, process, connection, token, is_known):
        answer = self.call_with_header(connection, token)
        self.assertEqual(b"token: unknown" not in answer, is_known, answer)
        self.check(process, token)

    def run_server(self, folder, encrypts):
        lines = subprocess.run([PROGRAM, "--make-token=someone"], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        path = os.path.join(folder, "tokens")
        with open(path, "w", encoding="utf-8") as file:
            file.write(lines[1] + "\n")
        token = lines[0].encode()
        key, certificate = make_certificate(folder, KINDS["P-256"][0])
        with Process(folder, key, certificate, "--token-file=" + path) as process:
            with process.connect(encrypts) as connection:
                self.use(process, connection, token, True)
                self.use(process, connection, token[::-1], False)
                self.use(process, connection, token, True)
            with process.connect(encrypts) as connection:
                self.use_header(process, connection, token, True)
                self.use_header(process, connection, token, True)  # with each message
                self.use_header(process, connection, token[::-1], False)
            self.check(process, token)
        with Process(folder, key, certificate) as process:  # this server has no tokens
            with process.connect(encrypts) as connection:
                self.call_with_header(connection, token)
                self.check(process, token)

    def test_are_nowhere(self):
        for encrypts in (False, True):
            with self.subTest(encrypts=encrypts), tempfile.TemporaryDirectory() as folder:
                try:
                    self.run_server(folder, encrypts)
                except PermissionError as error:
                    self.skipTest("memory cannot be read: %s" % error)

    def test_are_found_where_they_are(self):
        """The search itself finds bytes of a request that has no secret."""
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = make_certificate(folder, KINDS["P-256"][0])
            with Process(folder, key, certificate) as process, process.connect(False) as connection:
                name = b"table_" + os.urandom(N_BYTES).hex().encode()
                field = struct.pack(">bhi", 11, 1, len(name)) + name
                connection.sendall(frame(b"EmbeddingTable:drop_table", field))
                receive(connection)
                try:
                    n_found = sum(region.count(name[:N_BYTES]) for region in process.regions())
                except PermissionError as error:
                    self.skipTest("memory cannot be read: %s" % error)
                self.assertGreater(n_found, 0)


if __name__ == "__main__":
    junit.main()
