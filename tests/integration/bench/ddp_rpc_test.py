# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:ddp_rpc as users run it: its flags, its reports, its refusals and its failures."""

import os
import re
import signal

import junit
import launcher

ONE = ("--number-trainers=1", "--number-ps=1", "--embedding-dim=512")

# A pass that would take minutes.
LONG = ("--number-trainers=2", "--number-ps=2", "--embedding-dim=256", "--warmup-cycles=0",
        "--epochs=1000000")

# Flags, and words that the error line must contain.
FLAGS = [
    ("--bogus", "--bogus", "--help"),
    ("--number-trainers=0", "--number-trainers=0", "1 to"),
    ("--number-ps=0", "--number-ps=0", "1 to"),
    ("--number-trainers=-1", "--number-trainers=-1", "1 to"),
    ("--number-ps=-1", "--number-ps=-1", "1 to"),
    ("--warmup-cycles=-1", "--warmup-cycles=-1"),
    ("--epochs=-1", "--epochs=-1"),
    ("--embedding-dim=-1", "--embedding-dim=-1"),
    ("--repeats=0", "--repeats=0", "1 to"),
    ("--lr=-1", "--lr=-1", "from 0 up"),
    ("--number-embeddings=0", "--number-embeddings=0"),
    ("--embedding-dim=0", "--embedding-dim=0"),
    ("--warmup-cycles=-2", "--warmup-cycles=-2"),
    ("--epochs=0", "--epochs=0"),
    ("--batches=0", "--batches=0"),
    ("--number-ps=2 --embedding-dim=64", "--number-ps=2 --embedding-dim=64", "multiple of 512"),
    ("--number-ps=3 --embedding-dim=256", "3 tables of dimension 256", "multiple of 512"),
    ("--task=hard", "--task=hard", "learnable, random"),
    ("--optimizer=lion", "--optimizer=lion", "ADAM"),
    ("--lr=nan", "--lr"),
    ("--peer=horovod", "--peer=horovod", "pytorch"),
    ("--peer=pytorch --task=learnable", "--task=learnable", "--peer"),
    ("--peer=pytorch --optimizer=adam", "--optimizer=adam", "--peer"),
    ("--transport=pigeon", "--transport=pigeon", "unix"),
    ("--trainer-device=cuda", "--trainer-device=cuda", "no CUDA device"),
    ("--table-device=cuda:1/host", "--table-device=cuda:1/host", 'unknown device "cuda:1"'),
    ("--table-device=cpu/host", "--table-device=cpu/host", "other than the CPU"),
    ("--peer=pytorch --trainer-device=cuda", "--trainer-device=cuda", "--peer"),
    ("--json=/nonexistent/out.json", "--json", "/nonexistent"),
    ("--rank=5", "--rank=5", "0 to 4"),
]


def figures(report):
    return {figure["name"]: figure for figure in report["figures"]}


class DdpRpc(launcher.TestCase):

    def pid_of(self, run, rank):
        for pid in run.living():
            with open("/proc/%d/cmdline" % pid, encoding="utf-8") as file:
                if "--rank=%d" % rank in file.read().split("\0"):
                    return pid
        raise AssertionError("no process of rank %d" % rank)

    def test_json_has_every_epoch(self):
        report = self.run_to_json("--smoke", "--epochs=7", "--number-trainers=3")
        self.assertEqual((report["schema"], report["benchmark"]), (1, "ddp_rpc"))
        epoch, rate = report["figures"][:2]
        self.assertEqual((epoch["name"], epoch["unit"], epoch["n"]), ("epoch", "ms", 21))
        self.assertEqual(len(epoch["samples"]), 21)
        self.assertEqual((rate["name"], rate["n"]), ("samples/s", 1))
        # An epoch has 10 batches of about 6.8 samples.
        samples = rate["p50"] * sum(epoch["samples"]) / 3 / 1e3
        self.assertTrue(7 * 3 * 50 < samples < 7 * 3 * 90, samples)
        self.assertEqual(figures(report)["all trainer/lookup_metric,lookup"]["n"], 210)
        self.assertEqual(figures(report)["all trainer/push_metric,push"]["n"], 210)

    def test_numbers_of_roles_are_free(self):
        for trainers, servers, dim in ((1, 4, 128), (3, 1, 512), (2, 1, 1024), (2, 2, 512)):
            with self.subTest(trainers=trainers, servers=servers, dim=dim):
                report = self.run_to_json("--smoke", "--epochs=2",
                                          "--number_trainers=%d" % trainers,
                                          "--number_ps=%d" % servers, "--embedding_dim=%d" % dim,
                                          "--repeats=2")
                self.assertEqual(report["figures"][0]["n"], 2 * 2 * trainers)

    def test_a_run_can_be_repeated(self):
        first, again = (self.run_to_json("--smoke", *ONE) for _ in range(2))
        other = self.run_to_json("--smoke", *ONE, "--seed=1")
        name = "trainer=0/loss"
        self.assertEqual(figures(first)[name]["samples"], figures(again)[name]["samples"])
        self.assertNotEqual(figures(first)[name]["samples"], figures(other)[name]["samples"])

    def test_sequential_lookups_give_the_same_loss(self):
        flags = ("--smoke", "--number-trainers=1", "--number-ps=4", "--embedding-dim=128")
        losses = [figures(self.run_to_json(*flags, *more))["trainer=0/loss"]["samples"]
                  for more in ((), ("--sequential-lookups",))]
        self.assertEqual(losses[0], losses[1])

    def test_what_can_be_learnt_is_learnt(self):
        report = self.run_to_json(*ONE, "--task=learnable", "--epochs=150", "--lr=0.02")
        self.assertLess(figures(report)["trainer=0/loss"]["samples"][-1], 0.1)

    def test_optimizers_of_the_tables(self):
        for optimizer in ("adagrad", "rowwise-adagrad", "adam", "ftrl"):
            with self.subTest(optimizer=optimizer):
                self.run_well("--smoke", "--epochs=2", "--optimizer=" + optimizer, "--lr=0.01")

    def test_without_a_warm_up_and_over_tcp(self):
        result = self.run_well("--smoke", "--warmup-cycles=0", "--transport=tcp")
        self.assertNotIn("warmup done", result.stdout)

    def test_refusals(self):
        for flag, *words in FLAGS:
            with self.subTest(flags=flag):
                result = self.run_world("--smoke", *flag.split())
                self.assertEqual((result.code, result.stdout), (2, ""), result)
                self.assertTrue(re.fullmatch(r"ddp_rpc: .*\n", result.stderr), result.stderr)
                for word in words:
                    self.assertIn(word, result.stderr)

    def test_a_role_that_is_killed_is_named(self):
        for rank, name in ((1, "trainer1"), (3, "ps1")):
            with self.subTest(name=name):
                run = self.start(*LONG)
                run.wait_until_training()
                pid = self.pid_of(run, rank)
                os.kill(pid, signal.SIGKILL)
                result = run.finish()
                self.assertEqual(result.code, 1)
                self.assertIn("ddp_rpc: %s (pid %d) was killed by signal 9" % (name, pid),
                              result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)
                self.assert_nothing_left(run)

    def test_a_server_that_stops_is_named(self):
        run = self.start(*LONG, "--rpc-timeout=10")
        run.wait_until_training()
        os.kill(self.pid_of(run, 3), signal.SIGSTOP)
        result = run.finish()
        self.assertEqual(result.code, 1)
        # The other trainer may report first. It knows only the rank that has left the group.
        self.assertRegex(result.stderr,
                         r"^ddp_rpc: trainer\d: its pass failed: .*(lookup|push): .*ps1\.sock.*\n$")
        self.assert_nothing_left(run)

    def test_ctrl_c(self):
        run = self.start(*LONG)
        run.wait_until_training()
        run.signal(signal.SIGINT)
        result = run.finish()
        self.assertEqual((result.code, result.stderr), (130, "ddp_rpc: interrupted\n"))
        self.assert_nothing_left(run)

    def test_a_killed_launcher_leaves_no_process(self):
        run = self.start(*LONG)
        run.wait_until_training()
        run.signal(signal.SIGKILL)
        run.finish()
        self.assert_nothing_left(run, files=True)


if __name__ == "__main__":
    junit.main()
