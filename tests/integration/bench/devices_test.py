# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Trainers and servers on devices. They train the same model as the CPU, to the bit, because these
fake devices compute like the CPU. Otherwise the fakes are as strict as a GPU: the host cannot
access their memory, and work runs only when it is waited for."""

import os
import signal

import experiments
import junit
import launcher
import report

# The paths are relative to the runfiles, but each run has its own folder.
for _name in ("LD_LIBRARY_PATH", "THRIFTPS_CUDA_LIBRARY"):
    os.environ[_name] = os.path.abspath(os.environ[_name])

HOOKS = ("rpc_hook", "sparse_rpc_hook", "allreduce_hook", "hybrid_hook")

# Three trainers have 6, 5 and 5 of 16 batches, so that one of them joins a round without data.
WORK = (*launcher.TINY, "--batch-size=4", "--epochs=2")
CUDA = ("--ncudatrainer=2", "--ncudaserver=1")

# The original scripts with CUDA roles. Scripts with nccl need a GPU.
OF_100 = ("--data=DummyData100 --model=DummyModelSparse100 --epochs=2 --batch_size=10 "
          "--rpc_timeout=30 ")
EXPERIMENTS = {
    "ddp_cuda_rpc": (
        OF_100 + "--ddp_hook=rpc_hook --backend=gloo --ntrainer=0 --ncudatrainer=2 --nserver=0 "
        "--ncudaserver=1 --server=AverageParameterServer", [10, 10]),
    "ddp_batch_cuda_rpc": (
        OF_100 + "--ddp_hook=rpc_hook --backend=gloo --ntrainer=0 --ncudatrainer=2 --nserver=0 "
        "--ncudaserver=1 --server=AverageBatchParameterServer", [10, 10]),
    "ddp_cuda_sparse_rpc_multi_allreduce": (
        OF_100 + "--ddp_hook=sparse_rpc_hook --backend=multi --ntrainer=0 --ncudatrainer=2 "
        "--nserver=0 --ncudaserver=1 --server=AverageParameterServer", [10, 10]),
}


class Devices(experiments.TestCase):

    def digest(self, *flags):
        """The final parameters of all trainers."""
        found = report.digests(self.run_to_json(*WORK, *flags))
        self.assertEqual(len(set(found)), 1, found)
        return found[0]

    def test_every_hook_and_backend(self):
        expected = self.digest()
        for hook in HOOKS:
            for backend in ("gloo", "multi"):
                with self.subTest(hook=hook, backend=backend):
                    self.assertEqual(expected, self.digest(*CUDA, "--ddp-hook=" + hook,
                                                           "--backend=" + backend))

    def test_roles_of_both_kinds(self):
        expected = self.digest("--ntrainer=3")
        for roles in (("--ntrainer=1", "--ncudatrainer=2"),
                      ("--ntrainer=2", "--ncudatrainer=1", "--nserver=1", "--ncudaserver=1"),
                      ("--ncudatrainer=3", "--nserver=2"), ("--ntrainer=3", "--ncudaserver=3")):
            with self.subTest(roles=roles):
                self.assertEqual(expected, self.digest(*roles))

    def test_ways_of_gradients(self):
        large = ("--model=Bucket64KiB", "--data=DummyDataBucket")
        expected = self.digest(*large)
        for flags in ((), ("--no-shared-memory",), ("--transport=tcp",),
                      ("--server=AverageBatchParameterServer",), ("--bucket-cap-mib=0.01",)):
            with self.subTest(flags=flags):
                self.assertEqual(expected, self.digest(*large, *CUDA, *flags))

    def test_compression(self):
        for compress in ("bf16", "topk:0.1"):
            with self.subTest(compress=compress):
                self.assertEqual(self.digest("--compress=" + compress),
                                 self.digest(*CUDA, "--compress=" + compress))

    def test_historic(self):
        self.check_all(EXPERIMENTS)

    def test_ranks_names_and_figures(self):
        text = self.run_well(*WORK, "--ntrainer=1", "--ncudatrainer=1", "--nserver=1",
                             "--ncudaserver=1").stdout
        tables = {title: rows for title, _, rows in report.read_report(text)}
        self.assertEqual(list(tables), ["trainer=0", "trainer=1", "all trainer", "server=2",
                                        "server=3", "all server"])
        for trainer in ("trainer=0", "trainer=1"):
            self.assertEqual(list(tables[trainer]), report.trainer_names("rpc_hook"))
            for name in report.TRAINER_NAMES:
                self.assertGreater(tables[trainer][name][0], 0, name)

    def test_each_server_its_own_trainers_of_its_kind(self):
        found = report.digests(self.run_to_json(*WORK, "--partition=trainers", "--ntrainer=2",
                                                "--ncudatrainer=2", "--nserver=1",
                                                "--ncudaserver=1"))
        self.assertEqual((len(found), len(set(found))), (4, 2), found)
        self.assertEqual((found[0], found[2]), (found[1], found[3]))

    def test_a_killed_trainer_is_named(self):
        run = self.start(*WORK, *CUDA, "--epochs=1000000")
        run.wait_until_training()
        os.kill(run.roles()["trainer1"], signal.SIGKILL)
        result = run.finish()
        self.assertEqual(result.code, 1)
        self.assertIn("trainer1", result.stderr)
        self.assert_nothing_left(run)


if __name__ == "__main__":
    junit.main()
