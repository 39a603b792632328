# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The other programs with roles on four hosts: DDP + RPC, and the batch-updating server."""

import os

import hosts
import junit


class World(hosts.TestCase):

    def start_all(self, *flags, **changed):
        """Rank N runs on host N + 1, so that the master is on host4."""
        return [self.start_on(rank + 1, "--rank=%d" % rank, "--master-addr=10.99.0.4", "--smoke",
                              *flags, *([changed["flag"]] if rank == changed.get("rank") else []))
                for rank in range(hosts.N_HOSTS)]

    def check_well(self, *flags):
        results = [role.finish() for role in self.start_all(*flags)]
        for result in results:
            self.assertEqual((result.code, result.stderr), (0, ""), results)
        self.assertIn("master at 10.99.0.4:29500 (rank 3, the last)", results[-1].stdout)

    def check_refused(self, *flags, flag, words):
        results = [role.finish() for role in
                   self.start_all("--startup-timeout=10", *flags, rank=0, flag=flag)]
        self.assertEqual([result.code for result in results], [1] * hosts.N_HOSTS, results)
        self.assertIn(words, results[0].stderr)
        self.assertIn(words, results[-1].stderr)


class DdpRpc(World):
    program = os.path.abspath(os.environ["DDP_RPC"])
    ROLES = ("--number-trainers=2", "--number-ps=1", "--embedding-dim=512")

    def test_it_trains(self):
        self.check_well(*self.ROLES)

    def test_flags_that_differ(self):
        self.check_refused(*self.ROLES, flag="--lr=0.5",
                           words="--lr=0.5, the master has --lr=0.05")


class BatchUpdate(World):
    program = os.path.abspath(os.environ["BATCH_UPDATE"])
    ROLES = ("--ntrainer=2",)

    def test_it_trains(self):
        self.check_well(*self.ROLES)

    def test_flags_that_differ(self):
        self.check_refused(*self.ROLES, flag="--max-staleness=3",
                           words="--max-staleness=3, the master has --max-staleness=0")


if __name__ == "__main__":
    junit.main()
