"""`perf` works on the released server: frame pointers, symbols, stacks from samples."""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

SERVER = os.path.abspath("plugin/app/thriftps_server")
INSTALLED = os.path.abspath("plugin/package/thriftps_server")
FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
N_CALLS = 100000
BATCH = 50


def disassemble(program):
    """Yields (function, lines)."""
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", program],
        stdout=subprocess.PIPE, encoding="utf-8", check=True,
    ).stdout
    name, lines = None, []
    for line in text.splitlines():
        match = FUNCTION.match(line)
        if match:
            if name:
                yield name, lines
            name, lines = match.group(1), []
        else:
            lines.append(line)
    yield name, lines


def describe(seqid):
    """Node.describe, framed, in the binary protocol."""
    name = b"Node:describe"
    body = struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">iB", seqid, 0)
    return struct.pack(">I", len(body)) + body


def read_exactly(connection, n):
    data = b""
    while len(data) < n:
        piece = connection.recv(n - len(data))
        assert piece, "the server has closed the connection"
        data += piece
    return data


def call_many(host, port, n):
    with socket.create_connection((host, port)) as connection:
        for first in range(0, n, BATCH):
            connection.sendall(b"".join(describe(first + i) for i in range(BATCH)))
            for _ in range(BATCH):
                read_exactly(connection, struct.unpack(">I", read_exactly(connection, 4))[0])


class Profile(unittest.TestCase):
    def test_functions_that_call_others_keep_a_frame_pointer(self):
        if os.uname().machine != "x86_64" or not shutil.which("objdump"):
            self.skipTest("reads x86-64 code with objdump")
        n_with, without = 0, []
        for name, lines in disassemble(SERVER):
            if not name.startswith("tps_") or ".cold" in name or ".part" in name:
                continue
            if not any("call " in line for line in lines):
                continue
            if any(re.search(r"mov +%rsp,%rbp|enter", line) for line in lines):
                n_with += 1
            else:
                without.append(name)
        self.assertGreater(n_with, 500)
        self.assertLess(len(without), n_with / 50, without[:20])

    def test_so_does_the_installed_program(self):
        if os.uname().machine != "x86_64" or not shutil.which("objdump"):
            self.skipTest("reads x86-64 code with objdump")
        lines = [line for _, lines in disassemble(INSTALLED) for line in lines]
        self.assertGreater(sum("mov    %rsp,%rbp" in line for line in lines), 500)

    def test_samples_have_stacks_with_names(self):
        if not shutil.which("perf"):
            self.skipTest("perf is not installed")
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "perf.data")
            # perf starts the server, so that the samples include the first call.
            perf = subprocess.Popen(
                "perf record -q -e cpu-clock:u --call-graph=fp -F 999 -o".split()
                + [data, "sh", "-c", "echo $$; exec $0 --listen=127.0.0.1:0", SERVER],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )
            self.addCleanup(perf.wait)
            pid = perf.stdout.readline().strip()
            if not pid:
                self.skipTest("perf cannot sample here: " + perf.communicate()[1].strip()[-200:])
            host, _, port = perf.stdout.readline().split()[-1].rpartition(":")
            call_many(host, int(port), N_CALLS)
            os.kill(int(pid), signal.SIGTERM)
            said = perf.communicate()[1]
            script = subprocess.run(
                ["perf", "script", "-i", data, "-F", "comm,ip,sym"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=False,
            ).stdout
        stacks = [stack for stack in script.split("\n\n") if "tps-io" in stack]
        if not stacks:
            self.skipTest("perf sees nothing here: " + said.strip()[-200:])
        whole = [stack for stack in stacks if re.search(r"\brun_(loop|turn)\b", stack)]
        self.assertGreater(len(whole), len(stacks) / 2, "\n\n".join(stacks[:3]))


if __name__ == "__main__":
    unittest.main()
