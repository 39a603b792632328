# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A world of PyTorch processes that runs a pass when it is told to, for the peers of the benchmarks.

The process that the benchmark starts is the world's keeper: it reads one command a line from stdin and prints what the
world's master answers, one JSON object a line:

    (start)  ->  the master's first answer, when all processes are up: {"ready": true, "torch": "1.13.1"}
    pass     ->  what the pass measured
    quit     ->  ends

Between passes the roles are stopped: TensorPipe polls without rest, which would slow the system that is measured then.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import warnings

import torch.multiprocessing as mp

# PyTorch deprecates calls that all versions have and that the scripts therefore use; some of its
# warnings go round the interpreter's filter.
warnings.showwarning = lambda *_, **__: None


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def die_with_parent():
    """So that no role outlives a launcher that was killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class World:
    """`run_role (rank, args, commands)` runs in a process for each rank; the master's receives "pass" and "quit" from
    `commands` and sends its answers there, the others leave it alone."""

    def __init__(self, n_roles, run_role, args):
        mp.set_start_method("fork")
        self.commands, theirs = mp.Pipe()
        self.processes = [mp.Process(target=run_role, args=(rank, args, theirs), daemon=True)
                          for rank in range(n_roles)]
        for process in self.processes:
            process.start()

    def signal_all(self, number):
        for process in self.processes:
            os.kill(process.pid, number)

    def answer(self):
        while not self.commands.poll(0.2):
            if not all(process.is_alive() for process in self.processes):
                sys.exit("peer pytorch: a role has ended")
        try:
            answer = self.commands.recv()
        except EOFError:
            sys.exit("peer pytorch: all roles have ended")
        print(json.dumps(answer), flush=True)
        self.signal_all(signal.SIGSTOP)

    def run(self):
        self.answer()
        for line in sys.stdin:
            if line.strip() != "pass":
                break
            self.signal_all(signal.SIGCONT)
            self.commands.send("pass")
            self.answer()
        self.signal_all(signal.SIGCONT)
        self.commands.send("quit")
        for process in self.processes:
            process.join()
