# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Trains a recommendation model in PyTorch, with embedding tables on several servers.

    train_recommender.py HOST:PORT HOST:PORT...

A user likes an item with the probability sigmoid(user . item). TUTORIAL.md explains the program.
split_tables.py trains the same model with generated code and NumPy.
"""

import sys

import thriftps.torch as tps
import torch

USERS, ITEMS, DIM = 200, 100, 8
STEPS, BATCH = 400, 1024


class Recommender(torch.nn.Module):

    def __init__(self, tables):
        super().__init__()
        table = {
            "mode": "sum",
            "shard": "range",  # each server has a range of the rows
            "optimizer": tps.Adagrad(lr=0.3),
            "initializer": tps.Normal(stdev=0.1, seed=7),
        }
        self.users = tps.RemoteEmbeddingBag(tables, "users", USERS, DIM, **table)
        self.items = tps.RemoteEmbeddingBag(tables, "items", ITEMS, DIM, **table)

    def forward(self, users, items):
        """Logits, one for each pair of a user and an item."""
        return (self.users(users[:, None]) * self.items(items[:, None])).sum(dim=1)


def sample(random):
    """Synthetic data: there are four kinds of users and items, and users like items of their kind.
    """
    users = torch.randint(USERS, (BATCH,), generator=random)
    items = torch.randint(ITEMS, (BATCH,), generator=random)
    probability = torch.where(users % 4 == items % 4, 0.9, 0.1)
    return users, items, torch.bernoulli(probability, generator=random)


def main(*addresses):
    with tps.connect(*addresses) as tables:
        model = Recommender(tables)
        random = torch.Generator().manual_seed(1)
        for step in range(STEPS + 1):
            users, items, liked = sample(random)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(users, items), liked)
            if step % 100 == 0:
                print("step %3d  loss %.2f" % (step, loss), flush=True)
            loss.backward()  # pushes gradients of rows; the servers run the optimizer
        tps.step()  # waits until the last push has been applied


if __name__ == "__main__":
    main(*sys.argv[1:])
