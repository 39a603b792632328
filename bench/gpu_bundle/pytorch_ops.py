#!/usr/bin/env python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The operations of device_ops in PyTorch 2.x on the same GPU: same sizes, same formulas for bytes,
same columns, and a copy measured around each operation.

    pytorch_ops.py [--mib=1024] [--rounds=30] [--beside=FILE] [--skip=0]
    pytorch_ops.py --list

FILE is the output of device_ops; its arrays have the same size, and each of its operations is
compared with PyTorch's. PyTorch has no FTRL. It has no row-wise Adagrad either; this program
computes it with operations on indexed rows. PyTorch always computes the loss. Ids are drawn on the
GPU; Zipf-distributed ids have the density of device_ops. After a CUDA error, every later
operation of the process would fail: the program exits with code 1, and --skip continues after
the operation in another process. Exit code 3, with a line that gives the reason, without PyTorch or
without CUDA support in it.
"""

import argparse
import re
import statistics
import sys
import time

BAG_ROWS = 20
GRADIENT_BAG_ROWS = 16
COLUMNS = 1024
EXPONENT = 1.05  # of the Zipf distribution
WARM_UP_S = 0.1


torch = None  # set by load_torch()


def give_up(why):
    print("pytorch_ops: %s" % why, file=sys.stderr)
    sys.exit(3)


def load_torch():
    global torch
    try:
        import torch as module
    except ImportError as error:
        give_up("no PyTorch in %s: %s" % (sys.executable, error))
    torch = module
    if not torch.cuda.is_available():
        give_up("PyTorch %s sees no CUDA device" % torch.__version__)


class Work:
    """The arrays of device_ops; as rows, they have `dim` columns."""

    def __init__(self, n_elems):
        self.n_elems = n_elems
        self.generator = torch.Generator(device="cuda").manual_seed(0)
        self.a = torch.rand(n_elems, device="cuda", generator=self.generator) + 0.001
        self.b = torch.rand(n_elems, device="cuda", generator=self.generator) + 0.001

    def ids(self, dim, n):
        ids = torch.arange(n, device="cuda", dtype=torch.int64)
        return ids * 0x9E3779B1 % (self.n_elems // dim)

    def zipf_ids(self, dim, n):
        """The inverse of the integral of the density, while device_ops draws from its sum."""
        rows = self.n_elems // dim
        drawn = torch.rand(n, device="cuda", generator=self.generator, dtype=torch.float64)
        top = (rows + 1) ** (1 - EXPONENT) - 1
        numbers = (1 + drawn * top) ** (1 / (1 - EXPONENT)) - 1
        return numbers.to(torch.int64).clamp_(0, rows - 1) * 0x9E3779B1 % rows

    def rows(self, dim):
        return self.a.view(-1, dim), self.b.view(-1, dim)


# Each function below returns a function that prepares an operation on the arrays of a Work, and
# returns the operation and the bytes that it must move.


def elements(n_bytes, run):
    """`n_bytes` for each element."""
    return lambda work: (lambda: run(work), n_bytes * work.n_elems)


def halves(dtype, n_bytes, run):
    """An operation on `b` as `dtype`."""

    def make(work):
        values = work.b.to(getattr(torch, dtype))
        return lambda: run(work, values), n_bytes * work.n_elems

    return make


def rows(n_bytes, run):
    """An operation on both arrays as rows of COLUMNS columns."""

    def make(work):
        a, b = work.rows(COLUMNS)
        return lambda: run(a, b), n_bytes * work.n_elems

    return make


def optimizer(name, n_bytes, **options):
    """A step of torch.optim, in its fused form if there is one."""

    def make(work):
        work.a.requires_grad_(True)
        work.a.grad = work.b
        kind = getattr(torch.optim, name)
        try:
            step = kind([work.a], lr=1e-4, fused=True, **options).step
        except (TypeError, RuntimeError):
            step = kind([work.a], lr=1e-4, foreach=True, **options).step
        return step, n_bytes * work.n_elems

    return make


def sparse_optimizer(name, dim, n_bytes):
    """A step of torch.optim for listed rows; each row is listed once."""

    def make(work):
        table, gradient = work.rows(dim)
        table = table.detach().requires_grad_(True)
        ids = work.ids(dim, len(table)).view(1, -1)
        table.grad = torch.sparse_coo_tensor(ids, gradient, table.shape, is_coalesced=True)
        step = getattr(torch.optim, name)([table], lr=1e-4).step
        return step, n_bytes * work.n_elems + 8 * len(table)

    return make


def step_rowwise(table, state, ids, gradient):
    state.index_add_(0, ids, gradient.pow(2).mean(1))
    rate = 1e-4 / (state[ids].sqrt() + 1e-8)
    table.index_add_(0, ids, gradient * rate.unsqueeze(1), alpha=-1)


def rowwise_adagrad(dim):
    def make(work):
        table, gradient = work.rows(dim)
        state = torch.zeros(len(table), device="cuda")
        ids = work.ids(dim, len(table))
        return (lambda: step_rowwise(table, state, ids, gradient),
                12 * work.n_elems + 16 * len(table))

    return make


def push_zipf(dim):
    """Equal ids are added, and row-wise Adagrad updates their rows."""

    def make(work):
        table, values = work.rows(dim)
        state = torch.zeros(len(table), device="cuda")
        ids = work.zipf_ids(dim, len(table)).view(1, -1)
        n_bytes = len(table) * (dim * 4 + 8) + len(torch.unique(ids)) * 2 * (dim * 4 + 4)

        def run():
            gradient = torch.sparse_coo_tensor(ids, values, table.shape).coalesce()
            step_rowwise(table, state, gradient.indices()[0], gradient.values())

        return run, n_bytes

    return make


def gather(dim, is_zipf=False):
    def make(work):
        ids = (work.zipf_ids if is_zipf else work.ids)(dim, work.n_elems // dim)
        out, table = work.rows(dim)
        return (lambda: torch.index_select(table, 0, ids, out=out),
                len(ids) * (dim * 4 + 8) + len(ids) * dim * 4)

    return make


def pool_arguments(work, dim, bag_rows, is_zipf=False):
    n_bags = work.n_elems // dim // bag_rows
    ids = (work.zipf_ids if is_zipf else work.ids)(dim, n_bags * bag_rows).view(n_bags, bag_rows)
    return ids, n_bags * bag_rows * (dim * 4 + 8) + n_bags * dim * 4


def pool(dim, is_zipf=False):
    def make(work):
        ids, n_bytes = pool_arguments(work, dim, BAG_ROWS, is_zipf)
        _, table = work.rows(dim)
        return lambda: torch.nn.functional.embedding_bag(ids, table, mode="sum"), n_bytes

    return make


def pool_gradient(dim):
    """Rows with unique ids, as in device_ops."""

    def make(work):
        ids, n_bytes = pool_arguments(work, dim, GRADIENT_BAG_ROWS)
        gradient, table = work.rows(dim)
        table.requires_grad_(True)
        with torch.enable_grad():
            output = torch.nn.functional.embedding_bag(ids, table, mode="sum", sparse=True)

        def run():
            sums, = torch.autograd.grad(output, table, gradient[: len(ids)], retain_graph=True)
            sums.coalesce()

        return run, n_bytes

    return make


def relu_gradient(work):
    output = work.b * 2
    return lambda: torch.ops.aten.threshold_backward(work.b, output, 0), 12 * work.n_elems


def with_gradient(values, loss, n_bytes):
    values = values.requires_grad_(True)

    def run():
        with torch.enable_grad():
            torch.autograd.grad(loss(values), values)

    return run, n_bytes


def cross_entropy(work):
    _, values = work.rows(COLUMNS)
    target = torch.arange(len(values), device="cuda") * 0x9E3779B1 % COLUMNS
    return with_gradient(values,
                         lambda rows: torch.nn.functional.cross_entropy(rows, target),
                         8 * work.n_elems)


def l1_loss(work):
    return with_gradient(work.b, lambda values: torch.nn.functional.l1_loss(values, work.a),
                         12 * work.n_elems)


def product(work):
    side = 1 << (work.n_elems.bit_length() - 1) // 2
    left, out = (values[: side * side].view(side, side) for values in (work.b, work.a))
    return lambda: torch.mm(left, left, out=out), 12 * work.n_elems


CASES = [
    ("copy", elements(8, lambda work: work.a.copy_(work.b))),
    ("accumulate", elements(12, lambda work: work.a.add_(work.b))),
    ("accumulate float16", halves("float16", 10, lambda work, values: work.a.add_(values))),
    ("accumulate bfloat16", halves("bfloat16", 10, lambda work, values: work.a.add_(values))),
    ("sgd", optimizer("SGD", 12)),
    ("row-wise adagrad, dim 64", rowwise_adagrad(64)),
    ("row-wise adagrad, dim 128", rowwise_adagrad(128)),
    ("adagrad of rows, dim 64", sparse_optimizer("Adagrad", 64, 20)),
    ("adam of rows, dim 64", sparse_optimizer("SparseAdam", 64, 28)),
    ("gather, dim 64", gather(64)),
    ("gather, dim 128", gather(128)),
    ("gather, dim 64, zipf", gather(64, is_zipf=True)),
    ("pool of 20, dim 64", pool(64)),
    ("pool of 20, dim 128", pool(128)),
    ("pool of 20, dim 64, zipf", pool(64, is_zipf=True)),
    ("pool's gradient, dim 64", pool_gradient(64)),
    ("push, dim 64, zipf", push_zipf(64)),
    ("fill", elements(4, lambda work: work.a.fill_(1.5))),
    ("cast to float16", halves("float16", 6, lambda work, values: values.copy_(work.b))),
    ("cast to bfloat16", halves("bfloat16", 6, lambda work, values: values.copy_(work.b))),
    ("scale", elements(8, lambda work: torch.mul(work.b, 0.3, out=work.a))),
    ("scale float16", halves("float16", 6,
                             lambda work, values: torch.mul(values, 0.3, out=work.a))),
    ("scale bfloat16", halves("bfloat16", 6,
                              lambda work, values: torch.mul(values, 0.3, out=work.a))),
    ("scale and accumulate", elements(12, lambda work: work.a.add_(work.b, alpha=0.3))),
    ("scale and add bfloat16", halves("bfloat16", 10,
                                      lambda work, values: work.a.add_(values, alpha=0.3))),
    ("divide", elements(8, lambda work: torch.div(work.b, 3.0, out=work.a))),
    ("divide to float16", halves("float16", 6,
                                 lambda work, values: torch.div(work.b, 3.0, out=values))),
    ("divide to bfloat16", halves("bfloat16", 6,
                                  lambda work, values: torch.div(work.b, 3.0, out=values))),
    ("sgd, momentum", optimizer("SGD", 20, momentum=0.9)),
    ("adagrad", optimizer("Adagrad", 20)),
    ("adam", optimizer("Adam", 28)),
    ("add bias", rows(8, lambda a, b: a.add_(b[0]))),
    ("sum of columns", rows(4, lambda a, b: torch.sum(b, 0))),
    ("relu", elements(8, lambda work: torch.clamp_min(work.b, 0, out=work.a))),
    ("relu's gradient", relu_gradient),
    ("softmax", rows(8, lambda a, b: torch.softmax(b, 1, out=a))),
    ("softmax's gradient", rows(12, lambda a, b: torch.ops.aten._softmax_backward_data(
        b, a, 1, torch.float32))),
    ("cross-entropy", cross_entropy),
    ("cross-entropy with loss", cross_entropy),
    ("l1 loss", l1_loss),
    ("l1 with loss", l1_loss),
    ("product of matrices", product),
]


def warm_up(run):
    end = time.monotonic() + WARM_UP_S
    while True:
        run()
        torch.cuda.synchronize()
        if time.monotonic() >= end:
            return


def rate_of(run, n_bytes, n_rounds):
    """GB/s, from the median of the rounds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    warm_up(run)
    for _ in range(n_rounds):
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return n_bytes / statistics.median(times) / 1e6


class Ours:
    """The output of device_ops: the size of its arrays, and GB/s by operation."""

    def __init__(self, path=None):
        self.mib, self.rates = None, {}
        if path is None:
            return
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                name, rest = line[:28].strip(), line[28:].split()
                size = re.fullmatch(r"operation, +([0-9]+) MiB", name)
                if size:
                    self.mib = int(size[1])
                elif rest and rest[0].replace(".", "", 1).isdigit():
                    self.rates[name] = float(rest[0])


def is_lasting(error):
    """Whether an error breaks the process's CUDA context."""
    words = str(error)
    return ("CUDA error" in words or "cudaError" in words or "CUBLAS_STATUS" in words) \
        and "out of memory" not in words


def find_size(mib):
    """The largest size up to `mib` for which there is memory."""
    while mib > 1:
        try:
            Work(mib << 18)
            break
        except RuntimeError as error:
            if "out of memory" not in str(error):
                break
            mib //= 2
    return mib


def measure(make, mib, n_rounds):
    """GB/s of the operation and, before and after it, of copies."""
    work, copy = Work(mib << 18), CASES[0][1]
    with torch.no_grad():
        before = rate_of(*copy(work), n_rounds)
        rate = rate_of(*make(work), n_rounds)
        return rate, (before + rate_of(*copy(work), n_rounds)) / 2


def print_verdict(ratios):
    behind = [name for name, ratio in ratios.items() if ratio < 1]
    print("%d of %d operations are at least level with PyTorch's%s" % (
        len(ratios) - len(behind), len(ratios), "; not: " + "; ".join(behind) if behind else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="size of an array")
    parser.add_argument("--rounds", type=int, default=30, help="the median of so many counts")
    parser.add_argument("--beside", type=Ours, default=Ours(), metavar="FILE",
                        help="output of device_ops")
    parser.add_argument("--skip", type=int, default=0,
                        help="operations to leave out, the first ones")
    parser.add_argument("--list", action="store_true", help="print the operations")
    flags = parser.parse_args()
    if flags.list:
        print("\n".join(name for name, _ in CASES))
        return
    sys.stdout.reconfigure(line_buffering=True)  # so that lines survive a kill
    load_torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    print("PyTorch %s, %s" % (torch.__version__, torch.cuda.get_device_name()))
    mib = find_size(flags.beside.mib or flags.mib)
    print("%-28s %10s %8s %8s" % ("operation, %8d MiB" % mib, "GB/s", "of copy", "ours/it"))
    ratios = {}
    for name, make in CASES[flags.skip:]:
        try:
            rate, of_copy = measure(make, mib, flags.rounds)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            reason = (str(error) or "failed").splitlines()[0]
            print("%-28s %10s %8s %8s  %s" % (name, "-", "-", "-", reason))
            if is_lasting(error):
                sys.exit(1)
            continue
        if name in flags.beside.rates and name != "copy":
            ratios[name] = flags.beside.rates[name] / rate
        print("%-28s %10.1f %8.2f %8s" % (name, rate, rate / of_copy,
                                          "%.2f" % ratios[name] if name in ratios else "-"))
    if ratios:
        print_verdict(ratios)


if __name__ == "__main__":
    main()
