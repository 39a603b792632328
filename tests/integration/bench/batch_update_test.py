# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:batch_update as users run it."""

import json
import os
import re
import signal

import junit
import launcher

# Flags, and words that the error line must contain.
FLAGS = [
    ("--bogus", "--bogus", "--help"),
    ("stray", "stray", "--help"),
    ("--ntrainer=0", "--ntrainer=0", "1 to"),
    ("--ntrainer=three", "--ntrainer", "three"),
    ("--batches=0", "--batches=0"),
    ("--batch-size=0", "--batch-size=0"),
    ("--in-features=0", "--in-features=0"),
    ("--out-features=-1", "--out-features=-1"),
    ("--lr=-1", "--lr=-1", "from 0 up"),
    ("--momentum=nan", "--momentum=nan"),
    ("--min-trainers=4", "--min-trainers=4", "0 to 3"),
    ("--max-staleness=-1", "--max-staleness=-1", "0 to"),
    ("--rpc-timeout=0", "--rpc-timeout=0"),
    ("--transport=pigeon", "--transport=pigeon", "unix", "tcp"),
    ("--peer=horovod", "--peer=horovod", "pytorch"),
    ("--repeats=0x", "--repeats"),
    ("--json=/nonexistent/out.json", "--json", "/nonexistent"),
]

TRAINERS = ("trainer0", "trainer1", "trainer2")
# A short timeout that is longer than a step of a running trainer on a busy machine.
HASTY = "--rpc-timeout=10"
# Makes a step long enough to be interrupted.
HEAVY = ("--in-features=2048", "--out-features=1024", "--batch-size=1000")


class BatchUpdate(launcher.TestCase):

    def assert_refused(self, result, *words, code=2):
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("batch_update: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def digest(self, stdout):
        return re.search(r"parameters \(xxh3-128\): (\w+), the same on all trainers",
                         stdout).group(1)

    def test_a_run_without_flags_ends_with_time_and_rate(self):
        result = self.run_well()
        self.assertRegex(result.stdout, r"\nTime spent training: [\d.e-]+s\n[\d.e+]+ updates/s\n$")
        self.assertIn("metrics for trainer=2", result.stdout)
        self.digest(result.stdout)

    def test_the_same_work_gives_the_same_parameters_over_any_transport(self):
        found = {self.digest(self.run_well("--smoke", "--batches=30",
                                           "--transport=" + transport).stdout)
                 for transport in ("unix", "tcp")}
        self.assertEqual(len(found), 1)
        self.assertNotIn(self.digest(self.run_well("--smoke", "--batches=30", "--seed=1").stdout),
                         found)

    def test_a_large_model(self):
        self.digest(self.run_well("--in_features=1024", "--out_features", "1024",
                                  "--batches=3").stdout)

    def test_json(self):
        output = self.run_to_json("--smoke", "--repeats=3")
        self.assertEqual((output["schema"], output["benchmark"]), (1, "batch_update"))
        self.assertEqual(output["flags"]["batches"], "4")
        figures = {figure["name"]: figure for figure in output["figures"]}
        self.assertEqual(figures["updates"]["unit"], "1/s")
        self.assertEqual(figures["updates"]["n"], 3)
        self.assertEqual(figures["trainer=1/batch_level_metric,batch_all"]["n"], 12)
        self.assertEqual(figures["all server/parameter_server_batch_metric,update_batch"]["n"], 12)

    def test_flags(self):
        for flags, *words in FLAGS:
            with self.subTest(flags=flags):
                result = self.run_world("--smoke", *flags.split())
                self.assert_refused(result, *words)
                self.assertEqual(result.stdout, "")

    def start_training(self, *flags):
        run = self.start(*flags)
        run.wait_until_training(TRAINERS)
        return run

    def test_a_killed_trainer_is_named(self):
        run = self.start_training("--batches=1000000")
        os.kill(run.roles()["trainer1"], signal.SIGKILL)
        result = run.finish()
        self.assert_refused(result, "trainer1", code=1)
        self.assert_nothing_left(run)

    def test_a_killed_server_is_named(self):
        run = self.start_training("--batches=1000000")
        os.kill(run.roles()["ps3"], signal.SIGKILL)
        result = run.finish()
        self.assert_refused(result, "ps3", code=1)
        self.assert_nothing_left(run)

    def test_a_trainer_that_hangs_is_named_at_the_deadline(self):
        run = self.start_training("--batches=1000000", HASTY)
        os.kill(run.roles()["trainer1"], signal.SIGSTOP)
        result = run.finish()
        self.assert_refused(result, "missing: trainer 1", "2 of 3 trainers", code=1)
        self.assert_nothing_left(run)

    def test_where_fewer_trainers_suffice_they_go_on_without_one_that_hangs(self):
        # Short, because a trainer ends if it has been stopped for 15 s. It may also expire for
        # trainers that run on a busy machine, because one trainer suffices.
        run = self.start_training("--batches=8", "--rpc-timeout=2", "--min-trainers=1", "-v",
                                  "--json=out.json", *HEAVY)
        late = run.roles()["trainer2"]
        os.kill(late, signal.SIGSTOP)
        # The trainer may have sent its gradients for one more update. The second update must be
        # made without this trainer.
        n_before = run.stderr().count("PS updated model")
        launcher.eventually(lambda: run.stderr().count("PS updated model") >= min(n_before + 2, 8),
                            "others go on")
        os.kill(late, signal.SIGCONT)
        result = run.finish()
        self.assertEqual(result.code, 0, result)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            figures = {figure["name"]: figure for figure in json.load(file)["figures"]}
        straggler = figures["all server/parameter_server_straggler_metric,update_straggler"]
        self.assertGreaterEqual(straggler["max"], 2000)
        self.assertIn("trainer2 reporting grads", result.stderr)

    def test_where_fewer_trainers_suffice_they_go_on_without_one_that_is_killed(self):
        # The deadline is never reached, so the server must notice the loss itself. When the kill
        # takes effect, most batches must still be to come.
        run = self.start_training("--batches=40", "--rpc-timeout=3600", "--min-trainers=2", "-v",
                                  "--json=out.json", *HEAVY)
        launcher.eventually(lambda: run.stderr().count("trainer1 got updated model") >= 2,
                            "trainer 1 has pushed twice")
        pid = run.roles()["trainer1"]
        os.kill(pid, signal.SIGKILL)
        result = run.finish()
        self.assertEqual(result.code, 0, result)
        self.assertIn("batch_update: trainer1 (pid %d) was killed by signal 9 (Killed); 2 of 3 "
                      "trainers continue\n" % pid, result.stderr)
        self.assertNotIn("metrics for trainer=1", result.stdout)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            figures = {figure["name"]: figure for figure in json.load(file)["figures"]}
        for rank in (0, 2):
            self.assertEqual(figures["trainer=%d/batch_level_metric,batch_all" % rank]["n"], 40)
        self.assert_nothing_left(run)

    def test_two_killed_trainers_are_one_too_many(self):
        run = self.start_training("--batches=1000000", "--rpc-timeout=60", "--min-trainers=2")
        roles = run.roles()
        for name in ("trainer1", "trainer2"):
            os.kill(roles[name], signal.SIGKILL)
        result = run.finish()
        self.assertEqual(result.code, 1, result)
        ends = [line for line in result.stderr.splitlines() if " was killed by signal " in line]
        self.assertEqual(len(ends), 2, result.stderr)
        first, second = ends
        self.assertRegex(first, r"trainer[12] \(pid \d+\) was killed by signal 9 \(Killed\); 2 of "
                                r"3 trainers continue")
        self.assertRegex(second, r"trainer[12] \(pid \d+\) was killed by signal 9")
        self.assert_nothing_left(run)

    def test_an_interrupt_ends_everything(self):
        run = self.start_training("--batches=1000000")
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish().code, 130)
        self.assert_nothing_left(run)

    def test_a_killed_launcher_leaves_no_process(self):
        run = self.start_training("--batches=1000000")
        run.signal(signal.SIGKILL)
        run.finish()
        self.assert_nothing_left(run, files=True)


if __name__ == "__main__":
    junit.main()
