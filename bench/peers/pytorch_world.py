# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A world of PyTorch processes that runs a pass on request, for the peers of the benchmarks.

The benchmark starts the keeper of the world. It reads one command per line from stdin and prints
the replies of the world's master, one JSON object per line:

    (start)  ->  when all processes have started: {"ready": true, "torch": "1.13.1"}
    pass     ->  the measurements of the pass
    quit     ->  ends

All other output goes to stderr. Times are milliseconds of the monotonic clock. Between passes the
roles are stopped: TensorPipe polls continuously, which would slow the measured system.
"""

import argparse
import ctypes
import json
import os
import signal
import socket
import sys
import warnings

# PyTorch reads these variables when it is loaded. Without them, every role prints a message when it
# ends.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
os.environ.setdefault("GLOG_minloglevel", "2")

import torch.multiprocessing as mp

# The scripts use calls that exist in all versions of PyTorch but are deprecated. Some of the
# warnings bypass the filter of the interpreter.
warnings.showwarning = lambda *_, **__: None


def parse_flags(description, **defaults):
    """The flags of a script; the type of a default is that of its values, and False is a switch."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    for name, default in dict(defaults, rpc_timeout=60.0, threads=1).items():
        kind = {"action": "store_true"} if default is False else {"type": type(default)}
        parser.add_argument("--" + name.replace("_", "-"), default=default, **kind)
    return parser.parse_args()


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def die_with_parent():
    """Ensures that no role outlives a killed launcher."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class World:
    """Runs `run_role (rank, args, commands)` in a process for each rank.

    The master receives "pass" and "quit" from `commands` and sends its replies there; the other
    roles must not use it.
    """

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
