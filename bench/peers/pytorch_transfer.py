#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""PyTorch's RPC over TensorPipe as a peer of //bench:transfer.

    pytorch_transfer.py --serve=default|tcp --address=127.0.0.1:0
    pytorch_transfer.py --load=default|tcp --address=127.0.0.1:PORT

The server prints "listening on ADDRESS" and ends at the end of its standard input. The load
generator reads rows and prints times (bench/transfer/system/row.h). With "default", TensorPipe
chooses its transports (shared memory between processes of one host); "tcp" restricts it to TCP.
"""

import argparse
import collections
import os
import socket
import sys
import threading
import time

# PyTorch reads these variables when it is loaded. Without them, every role prints a message when it
# ends.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
os.environ.setdefault("GLOG_minloglevel", "2")

import torch
import torch.distributed.rpc as rpc

_pulled = {}


def push(tensor):
    """The tensor has arrived completely."""


def pull(n_bytes):
    """Returns the same tensor every time, as with a table or a model."""
    if n_bytes not in _pulled:
        _pulled[n_bytes] = torch.full((n_bytes // 4,), 0.5)
    return _pulled[n_bytes]


def echo(tensor):
    return tensor


def join(rank, kind, address):
    options = {"init_method": "tcp://" + address, "rpc_timeout": 120}
    if kind == "tcp":
        options.update(_transports=["uv"], _channels=["basic"])
    torch.set_num_threads(1)
    rpc.init_rpc(("server", "client")[rank], rank=rank, world_size=2,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**options))


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def serve(kind):
    address = "127.0.0.1:%d" % free_port()
    # The rendezvous waits for the client, which starts when it knows the address. Meanwhile the
    # rendezvous may hold the lock of the interpreter.
    print("listening on " + address, flush=True)
    threading.Thread(target=join, args=(0, kind, address), daemon=True).start()
    sys.stdin.read()
    os._exit(0)


def start_call(op, n_bytes, tensor):
    if op == "pull":
        return rpc.rpc_async("server", pull, (n_bytes,))
    return rpc.rpc_async("server", push if op == "push" else echo, (tensor,))


def check(op, n_bytes, answer):
    if op != "push" and answer.numel() * 4 != n_bytes:
        raise RuntimeError("a wrong reply")


def run_row(op, n_bytes, n_in_flight, n_calls):
    # The memory must be written, because pages that were never written share a single page.
    tensor = torch.full((n_bytes // 4,), 0.5)
    flying = collections.deque()
    times = []
    started = 0
    start = time.perf_counter_ns()
    while len(times) < n_calls:
        while started < n_calls and len(flying) < n_in_flight:
            flying.append((time.perf_counter_ns(), start_call(op, n_bytes, tensor)))
            started += 1
        before, future = flying.popleft()
        check(op, n_bytes, future.wait())
        times.append(time.perf_counter_ns() - before)
    return (time.perf_counter_ns() - start) / 1e9, times


def load(kind, address):
    join(1, kind, address)
    for line in sys.stdin:
        op, n_bytes, _, n_in_flight, n_calls = line.split()
        try:
            seconds, times = run_row(op, int(n_bytes), int(n_in_flight), int(n_calls))
            print("ok %.9f %s" % (seconds, " ".join(map(str, times))), flush=True)
        except Exception as error:  # the benchmark reports any error
            print("error " + str(error).splitlines()[0], flush=True)
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", choices=("default", "tcp"))
    parser.add_argument("--load", choices=("default", "tcp"))
    parser.add_argument("--address", required=True)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    elif arguments.load:
        load(arguments.load, arguments.address)
    else:
        parser.error("--serve or --load")


if __name__ == "__main__":
    main()
