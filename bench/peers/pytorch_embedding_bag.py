#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""torch.nn.functional.embedding_bag as a peer of //bench:lookup.

    pytorch_embedding_bag.py --rows=N --dim=N --bags=N --bag-length=N --ids=FILE

FILE contains the ids as int64, one batch after the other. The script prints "torch VERSION" when
its table is filled (the formula is in bench/lookup/bags.h). For each line "THREADS BATCHES" it
pools that many batches and replies "ok SECONDS CHECKSUM", where the checksum is the sum of all
outputs of the last batch. It ends at the end of its standard input.
"""

import argparse
import sys
import time

import torch
from torch.nn.functional import embedding_bag


def make_table(rows, dim):
    values = torch.arange(rows, dtype=torch.int32).mul_(31).unsqueeze(1) + torch.arange(
        dim, dtype=torch.int32) * 7
    return values.remainder_(257).float().div_(256)


def run(table, sets, offsets, n_batches):
    start = time.perf_counter()
    for batch in range(n_batches):
        output = embedding_bag(sets[batch % len(sets)], table, offsets, mode="sum")
    return time.perf_counter() - start, output.double().sum().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rows", "dim", "bags", "bag-length"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--ids", required=True)
    arguments = parser.parse_args()
    n_indices = arguments.bags * arguments.bag_length
    with open(arguments.ids, "rb") as file:
        sets = torch.frombuffer(bytearray(file.read()), dtype=torch.int64).reshape(-1, n_indices)
    table = make_table(arguments.rows, arguments.dim)
    offsets = torch.arange(0, n_indices, arguments.bag_length)
    print("torch " + torch.__version__, flush=True)
    with torch.no_grad():
        for line in sys.stdin:
            n_threads, n_batches = map(int, line.split())
            torch.set_num_threads(n_threads)
            print("ok %.9f %.17g" % run(table, list(sets), offsets, n_batches), flush=True)


if __name__ == "__main__":
    main()
