#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""torch.distributed.all_reduce on Gloo as a peer of //bench:all_reduce: one rank.

    pytorch_all_reduce.py --rank=N --ranks=N --store=FILE

The ranks join through FILE. Each prints "torch VERSION" when all have joined. For each line "BYTES
CALLS" it sums that many bytes of floats CALLS times and replies "ok SECONDS". It ends at the end of
its standard input.
"""

import argparse
import os
import sys
import time

# PyTorch reads these variables when it is loaded. The ranks are on this host.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch
import torch.distributed as dist

PERIOD = 61  # the period of checked data: small integers, whose sums are exact


def check(rank, n_ranks, n_elems):
    index = torch.arange(n_elems)
    data = ((index + 7 * rank) % PERIOD).float()
    dist.all_reduce(data)
    expected = sum(((index + 7 * other) % PERIOD).float() for other in range(n_ranks))
    if not torch.equal(data, expected):
        raise RuntimeError("a wrong sum")


def run(data, n_calls):
    dist.all_reduce(torch.zeros(1))
    start = time.perf_counter()
    for _ in range(n_calls):
        dist.all_reduce(data)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--store", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + arguments.store, rank=arguments.rank,
                            world_size=arguments.ranks)
    dist.all_reduce(torch.zeros(1))
    print("torch " + torch.__version__, flush=True)
    for line in sys.stdin:
        n_bytes, n_calls = map(int, line.split())
        try:
            check(arguments.rank, arguments.ranks, n_bytes // 4)
            print("ok %.9f" % run(torch.zeros(n_bytes // 4), n_calls), flush=True)
        except Exception as error:  # the benchmark reports any error
            print("error " + str(error).splitlines()[0], flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
