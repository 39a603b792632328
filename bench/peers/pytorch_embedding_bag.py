#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""PyTorch's EmbeddingBag as a peer of //bench:lookup: lookups, and steps of its sparse optimizers.

Command line, input and output: see embedding_work.py. Optimizers: "adagrad", torch.optim.Adagrad on
sparse gradients, and "adam", torch.optim.SparseAdam.
"""

import warnings

import embedding_work
import torch
from torch.nn.functional import embedding_bag

OPTIMIZERS = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.SparseAdam}


def get_offsets(arguments):
    return torch.arange(0, arguments.bags * arguments.bag_length, arguments.bag_length)


def make_lookup(arguments, _batches):
    table = embedding_work.make_table(arguments.rows, arguments.dim)
    offsets = get_offsets(arguments)
    return lambda ids: embedding_bag(ids, table, offsets, mode="sum")


def make_training(arguments, batches, name):
    table = torch.zeros(arguments.rows, arguments.dim, requires_grad=True)
    offsets = get_offsets(arguments)
    optimizer = OPTIMIZERS[name]([table], lr=embedding_work.LEARNING_RATE,
                                 eps=embedding_work.EPSILON)

    def train(ids):
        optimizer.zero_grad()
        output = embedding_bag(ids, table, offsets, mode="sum", sparse=True)
        output.backward(batches.gradients)
        optimizer.step()
        return output

    return train, table


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Sparse invariant checks")
    embedding_work.serve("torch " + torch.__version__, make_lookup, make_training)
