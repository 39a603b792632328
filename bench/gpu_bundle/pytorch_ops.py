#!/usr/bin/env python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The operations of device_ops in PyTorch 2.x on the same GPU: same sizes, same formulas for bytes, same columns.

    pytorch_ops.py [--mib=256] [--rounds=30]

Exit code 3, with a line that says why, where there is no PyTorch or no CUDA in it.
"""

import argparse
import statistics
import sys

BAG_ROWS = 20


def give_up(why):
    print("pytorch_ops: %s" % why, file=sys.stderr)
    sys.exit(3)


def load_torch():
    try:
        import torch
    except ImportError as error:
        give_up("no PyTorch in %s: %s" % (sys.executable, error))
    if not torch.cuda.is_available():
        give_up("PyTorch %s sees no CUDA device" % torch.__version__)
    return torch


class Work:
    """Arrays as device_ops has them; `dim` columns where rows are meant."""

    def __init__(self, torch, n_elems):
        self.torch = torch
        self.n_elems = n_elems
        generator = torch.Generator(device="cuda").manual_seed(0)
        self.a = torch.rand(n_elems, device="cuda", generator=generator)
        self.b = torch.rand(n_elems, device="cuda", generator=generator)

    def ids(self, dim, n):
        rows = self.n_elems // dim
        ids = self.torch.arange(n, device="cuda", dtype=self.torch.int64)
        return ids * 0x9E3779B1 % rows

    def rows(self, values, dim):
        return values.view(-1, dim)


def copy(work):
    return lambda: work.a.copy_(work.b), 8 * work.n_elems


def accumulate(work):
    return lambda: work.a.add_(work.b), 12 * work.n_elems


def sgd(work):
    """torch.optim.SGD in its fused form, without momentum."""
    work.a.requires_grad_(True)
    work.a.grad = work.b
    optimizer = work.torch.optim.SGD([work.a], lr=1e-4, fused=True)
    return optimizer.step, 12 * work.n_elems


def gather(dim):
    def make(work):
        ids = work.ids(dim, work.n_elems // dim)
        table, out = work.rows(work.b, dim), work.rows(work.a, dim)
        n_bytes = len(ids) * (dim * 4 + 8) + len(ids) * dim * 4
        return lambda: work.torch.index_select(table, 0, ids, out=out), n_bytes

    return make


def pool(dim):
    def make(work):
        n_bags = work.n_elems // dim // BAG_ROWS
        ids = work.ids(dim, n_bags * BAG_ROWS).view(n_bags, BAG_ROWS)
        table = work.rows(work.b, dim)
        n_bytes = n_bags * BAG_ROWS * (dim * 4 + 8) + n_bags * dim * 4
        return lambda: work.torch.nn.functional.embedding_bag(ids, table, mode="sum"), n_bytes

    return make


CASES = [
    ("copy", copy),
    ("accumulate", accumulate),
    ("sgd", sgd),
    ("gather, dim 64", gather(64)),
    ("gather, dim 128", gather(128)),
    ("pool of 20, dim 64", pool(64)),
    ("pool of 20, dim 128", pool(128)),
]


def median_ms(torch, run, n_rounds):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(n_rounds + 3):
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256, help="size of an array")
    parser.add_argument("--rounds", type=int, default=30, help="the median of so many counts")
    flags = parser.parse_args()
    torch = load_torch()
    print("PyTorch %s, %s" % (torch.__version__, torch.cuda.get_device_name()))
    print("%-28s %10s %8s" % ("operation", "GB/s", "of copy"))
    of_copy = None
    for name, make in CASES:
        work = Work(torch, flags.mib << 18)
        with torch.no_grad():
            try:
                run, n_bytes = make(work)
                rate = n_bytes / median_ms(torch, run, flags.rounds) / 1e6
            except (RuntimeError, TypeError, ValueError) as error:
                print("%-28s %10s %8s  %s" % (name, "-", "-", str(error).splitlines()[0]))
                continue
        of_copy = of_copy or rate
        print("%-28s %10.1f %8.2f" % (name, rate, rate / of_copy))


if __name__ == "__main__":
    main()
