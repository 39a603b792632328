# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The common part of the peers of //bench:lookup: pytorch_embedding_bag.py and fbgemm_tbe.py.

    SCRIPT --rows=N --dim=N --bags=N --bag-length=N --samples=N --ids=FILE

FILE contains the ids as int64, one batch after another. The script prints its versions on the
first line, or "skip REASON" if a library is missing. For each line "WORK THREADS FIRST BATCHES" it
runs that many batches from number FIRST on and replies "ok SECONDS CHECKSUM". It ends at the end of
its standard input.

The work "lookup" pools batches of a table that never changes, and its checksum is the sum of all
outputs of the last batch. Every other work is named for an optimizer: it pools a batch of a table
of zeros, and then pushes the gradients of its bags to that table. Its checksum is the sum of the
rows of the first --samples ids of the file. Formulas: bench/lookup/bags.h and trained_rows.h.
"""

import argparse
import os
import sys
import time

# PyTorch reads this variable at its first allocation. Large tensors then use huge pages, like the
# tables of ThriftPS.
os.environ["THP_MEM_ALLOC_ENABLE"] = "1"

try:
    import torch
except ImportError as missing:
    print("skip %s: %s" % (sys.executable, missing), flush=True)
    sys.exit(0)

LEARNING_RATE = 0.01
EPSILON = 1e-8


def make_table(rows, dim):
    values = torch.arange(rows, dtype=torch.int32).mul_(31).unsqueeze(1) + torch.arange(
        dim, dtype=torch.int32) * 7
    return values.remainder_(257).float().div_(256)


def make_gradients(bags, dim):
    values = torch.arange(bags, dtype=torch.int32).mul_(13).unsqueeze(1) + torch.arange(
        dim, dtype=torch.int32) * 5
    return values.remainder_(127).sub_(63).float().div_(256)


class Batches:
    """The ids of all batches, and the measured loops."""

    def __init__(self, arguments):
        n_indices = arguments.bags * arguments.bag_length
        with open(arguments.ids, "rb") as file:
            ids = torch.frombuffer(bytearray(file.read()), dtype=torch.int64)
        self.sets = list(ids.reshape(-1, n_indices))
        self.samples = ids[:arguments.samples]
        self.bag_length = arguments.bag_length
        self.gradients = make_gradients(arguments.bags, arguments.dim)

    def run(self, step, first, n_batches):
        start = time.perf_counter()
        for batch in range(first, first + n_batches):
            output = step(self.sets[batch % len(self.sets)])
        return time.perf_counter() - start, output

    def look_up(self, pool, first, n_batches):
        with torch.no_grad():
            seconds, output = self.run(pool, first, n_batches)
        return seconds, output.double().sum().item()

    def train(self, train, table, first, n_batches):
        seconds, _ = self.run(train, first, n_batches)
        return seconds, table.detach()[self.samples].double().sum().item()


def serve(version, make_lookup, make_training):
    """Serves the requests of the benchmark. make_lookup(arguments, batches) returns a function that
    pools a batch; make_training(arguments, batches, optimizer) returns a function that trains one,
    and the table. Each is called at the first request for its work."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rows", "dim", "bags", "bag-length", "samples"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--ids", required=True)
    arguments = parser.parse_args()
    batches = Batches(arguments)
    works = {}
    print(version, flush=True)
    for line in sys.stdin:
        work, n_threads, first, n_batches = line.split()
        torch.set_num_threads(int(n_threads))
        if work not in works:
            works[work] = ((make_lookup(arguments, batches), ) if work == "lookup" else
                           make_training(arguments, batches, work))
        run = batches.look_up if work == "lookup" else batches.train
        print("ok %.9f %.17g" % run(*works[work], int(first), int(n_batches)), flush=True)
