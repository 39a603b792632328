# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Every hook with every kind of server, transport and layout trains the same model.

"The same" means equal bits: servers and all-reduce add in the order of trainers and divide once, so
the digest of the parameters after a pass must not depend on the path of the gradients.
"""

import re

import junit
import launcher
import report

HOOKS = ("rpc_hook", "sparse_rpc_hook", "allreduce_hook", "hybrid_hook")
SERVERS = ("AverageParameterServer", "AverageBatchParameterServer")

# Three trainers have 6, 5 and 5 of 16 batches, so that one of them joins a round without data.
WORK = (*launcher.TINY, "--batch-size=4", "--epochs=3")


class Hooks(launcher.TestCase):

    def digest(self, *flags, trainers=2):
        """The final parameters of all trainers."""
        found = report.digests(self.run_to_json(*WORK, "--ntrainer=%d" % trainers, *flags))
        self.assertEqual(len(found), trainers)
        self.assertEqual(len(set(found)), 1, found)
        return found[0]

    def check_hooks(self, trainers, *flags):
        expected = self.digest("--ddp-hook=allreduce_hook", "--nserver=0", *flags,
                               trainers=trainers)
        for hook in HOOKS:
            for server in SERVERS:
                with self.subTest(hook=hook, server=server):
                    self.assertEqual(expected,
                                     self.digest("--ddp-hook=" + hook, "--server=" + server, *flags,
                                                 trainers=trainers))
        return expected

    def test_all_give_one_trainer_the_same_parameters(self):
        self.check_hooks(1)

    def test_all_give_two_trainers_the_same_parameters(self):
        self.check_hooks(2)

    def test_all_give_three_trainers_the_same_parameters(self):
        self.check_hooks(3)

    def test_the_number_of_trainers_counts(self):
        self.assertEqual(len({self.digest(trainers=n) for n in (1, 2, 3)}), 3)

    def test_all_give_the_same_parameters_of_sums(self):
        self.assertNotEqual(self.check_hooks(2, "--reduce=sum"), self.digest())

    def test_of_one_trainer_the_sum_is_the_mean(self):
        self.assertEqual(self.digest("--reduce=sum", trainers=1), self.digest(trainers=1))

    def test_servers_share_the_work_and_change_nothing(self):
        for trainers in (1, 2, 3):
            expected = self.digest("--nserver=1", trainers=trainers)
            for servers in (2, 3):
                with self.subTest(trainers=trainers, servers=servers):
                    self.assertEqual(expected,
                                     self.digest("--nserver=%d" % servers, trainers=trainers))

    def test_transports_carry_the_same_bits(self):
        for hook in HOOKS:
            with self.subTest(hook=hook):
                self.assertEqual(self.digest("--ddp-hook=" + hook, "--transport=unix"),
                                 self.digest("--ddp-hook=" + hook, "--transport=tcp"))

    def test_shared_memory_carries_the_same_bits(self):
        large = ("--model=Bucket64KiB", "--data=DummyDataBucket")  # smaller tensors use the socket
        for hook in ("rpc_hook", "sparse_rpc_hook"):
            with self.subTest(hook=hook):
                found = {self.digest("--ddp-hook=" + hook, *large, *flags)
                         for flags in ((), ("--no-shared-memory",), ("--transport=tcp",))}
                self.assertEqual(len(found), 1)

    def segments(self, hook, *flags):
        """The names of the shared memory that trainer0 has mapped while it trains."""
        run = self.start(*launcher.TINY, "--model=Bucket64KiB", "--data=DummyDataBucket",
                         "--batch-size=4", "--epochs=1000000", "--ddp-hook=" + hook, *flags)
        launcher.eventually(run.progress, "it trains")
        with open("/proc/%d/maps" % run.roles()["trainer0"], encoding="utf-8") as file:
            found = set(re.findall("memfd:(thriftps-[a-z]+)", file.read()))
        run.kill()
        return found

    def test_shared_memory_can_be_switched_off(self):
        for hook in ("rpc_hook", "allreduce_hook"):
            with self.subTest(hook=hook):
                self.assertEqual(len(self.segments(hook)), 1)
                self.assertEqual(self.segments(hook, "--no-shared-memory"), set())

    def test_bucket_sizes_change_nothing(self):
        self.assertEqual(self.digest(),
                         self.digest("--first-bucket-mib=0.001", "--bucket-cap-mib=0.01"))

    def test_pieces_change_nothing(self):
        for hook in ("rpc_hook", "sparse_rpc_hook"):
            for compress in ("none", "fp16", "topk:0.1"):
                with self.subTest(hook=hook, compress=compress):
                    found = {self.digest("--ddp-hook=" + hook, "--compress=" + compress, *flags)
                             for flags in ((), ("--piece-kib=1",),
                                           ("--piece-kib=2", "--transport=tcp", "--nserver=3"))}
                    self.assertEqual(len(found), 1)

    def test_seeds_count(self):
        self.assertNotEqual(self.digest("--seed=1"), self.digest("--seed=2"))
        self.assertEqual(self.digest("--seed=1"), self.digest("--seed=1"))

    def test_every_epoch_counts(self):
        found = {epochs: self.digest("--epochs=%d" % epochs) for epochs in (1, 2, 3)}
        self.assertEqual(len(set(found.values())), 3)

    def test_metrics_have_the_names_of_the_hook(self):
        for hook in HOOKS:
            for backend in ("gloo", "multi"):
                with self.subTest(hook=hook, backend=backend):
                    text = self.run_well(*WORK, "--ddp-hook=" + hook, "--backend=" + backend).stdout
                    tables = {title: rows for title, _, rows in report.read_report(text)}
                    self.assertEqual(list(tables["all trainer"]), report.trainer_names(hook))
                    used = hook in ("rpc_hook", "sparse_rpc_hook")
                    self.assertEqual(list(tables["all server"]),
                                     report.SERVER_NAMES if used else [])


class PartitionByTrainers(launcher.TestCase):
    """The originals' layout: each server averages its own trainers, and the servers are not
    averaged."""

    def digests(self, *flags):
        return report.digests(self.run_to_json(*WORK, "--partition=trainers", *flags))

    def test_one_server_is_as_always(self):
        self.assertEqual(set(self.digests()), set(report.digests(self.run_to_json(*WORK))))

    def test_each_server_has_its_own_model(self):
        for trainers, servers, models in ((2, 2, 2), (3, 2, 2), (4, 2, 2), (3, 3, 3)):
            with self.subTest(trainers=trainers, servers=servers):
                found = self.digests("--ntrainer=%d" % trainers, "--nserver=%d" % servers)
                self.assertEqual((len(found), len(set(found))), (trainers, models), found)

    def test_pieces_change_nothing(self):
        for flags in (("--ntrainer=3", "--nserver=2"), ("--ntrainer=4", "--nserver=4")):
            self.assertEqual(self.digests(*flags), self.digests("--piece-kib=1", *flags))

    def test_trainers_of_one_server_agree(self):
        found = self.digests("--ntrainer=4", "--nserver=2")
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[2], found[3])

    def test_no_shared_memory_reaches_all_reduce(self):
        for flags, shares in (((), True), (("--no-shared-memory",), False)):
            with self.subTest(flags=flags):
                run = self.start(*launcher.TINY, "--batch-size=4", "--epochs=1000000",
                                 "--ddp-hook=allreduce_hook", *flags)
                run.wait_until_training()
                with open("/proc/%d/maps" % run.roles()["trainer0"], encoding="utf-8") as maps:
                    self.assertEqual("memfd:thriftps-" in maps.read(), shares)
                run.kill()


if __name__ == "__main__":
    junit.main()
