#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A DLRM on PyTorch as a peer of //bench:dlrm. dlrm_training.py describes the command line.

Each table is an EmbeddingBag with sparse gradients. Several ranks are data parallel: all of them
have all tables, and DistributedDataParallel all-reduces the gradients of layers and tables over
Gloo.

PyTorch has no row-wise Adagrad; Adagrad takes its place.
"""

import math
import sys

try:
    import dlrm_training
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
except ImportError as missing:
    print("skip %s: %s" % (sys.executable, missing), flush=True)
    sys.exit(0)

SPARSE_OPTIMIZERS = {
    "SGD": torch.optim.SGD,
    "ADAGRAD": torch.optim.Adagrad,
    "ROWWISE_ADAGRAD": torch.optim.Adagrad,
    "ADAM": torch.optim.SparseAdam,
}


class Dlrm(dlrm_training.Dlrm):
    def __init__(self, rows, dim):
        super().__init__(len(rows), dim)
        self.tables = nn.ModuleList()
        for n_rows in rows:
            table = nn.EmbeddingBag(n_rows, dim, mode="sum", sparse=True)
            nn.init.uniform_(table.weight, -1 / math.sqrt(n_rows), 1 / math.sqrt(n_rows))
            self.tables.append(table)

    def look_up(self, ids):
        return [table(each) for table, each in zip(self.tables, ids)]

    def finish_lookup(self, vectors):
        return vectors


def make_training(arguments):
    model = dlrm = Dlrm(arguments.rows, arguments.dim)
    if arguments.ranks > 1:
        dlrm_training.join(arguments)
        model = DistributedDataParallel(dlrm, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = SPARSE_OPTIMIZERS[arguments.optimizer](list(dlrm.tables.parameters()),
                                                       lr=arguments.lr)
    return dlrm_training.Training(arguments, dlrm, model, optimizer)


def main():
    arguments = dlrm_training.parse_arguments(__doc__)
    dlrm_training.serve(arguments, "torch " + torch.__version__, lambda: make_training(arguments))


if __name__ == "__main__":
    main()
