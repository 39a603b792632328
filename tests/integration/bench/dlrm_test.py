# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:dlrm: its output and its JSON; the agreement with a single process; no process or file
remains."""

import json
import os
import signal

import junit
import launcher

PHASES = ["ids", "lookup", "forward", "backward", "average", "push", "step"]
PEERS = ("pytorch", "torchrec")

# A fake peer without PyTorch. It makes the same prediction for every sample.
FAKE_PYTHON = """#!/usr/bin/python3
import array, math, os, sys

name = os.path.basename(sys.argv[1]).split("_")[0]
flags = dict(flag[2:].split("=", 1) for flag in sys.argv[2:])
rank, ranks, batch = int(flags["rank"]), int(flags["ranks"]), int(flags["batch"])

def serve(version):
    n_samples = ranks * batch
    n_bytes = n_samples * (14 * 4 + 8 * sum(map(int, flags["bag-lengths"].split(","))))
    samples = open(flags["samples"], "rb")
    print(version + "\\nready", flush=True)
    for line in sys.stdin:
        first, n_steps, path = line.rstrip("\\n").split(" ", 2)
        values = array.array("d", [0, 1, 1, 1, 1, 1, 5] * int(n_steps))
        for step in range(int(n_steps)):
            samples.seek((int(first) + step) * n_bytes)
            labels = array.array("f", samples.read(4 * n_samples))
            for label in labels[rank * batch:(rank + 1) * batch]:
                values.extend([-1, label])
        with open(path, "wb") as file:
            values.tofile(file)
        print("ok %f" % (2 if rank == ranks - 1 else 1), flush=True)
"""


class Dlrm(launcher.TestCase):
    program = os.path.abspath(os.environ["DLRM"])

    def measure(self, *flags, **environment):
        """The JSON of a small run."""
        self.stdout = self.run_well("--smoke", "--json=out.json", *flags, **environment).stdout
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "dlrm"))
        return output

    def medians(self, output):
        return {figure["name"]: figure["p50"] for figure in output["figures"]}

    def check_agreement(self, output, tolerance=1e-5):
        """The program itself accepts more; a few steps must be much closer."""
        figures = self.medians(output)
        for quantity in ("log loss", "AUC"):
            self.assertAlmostEqual(figures["servers " + quantity], figures["local " + quantity],
                                   delta=tolerance)

    def test_figures_phases_and_the_single_process(self):
        output = self.measure("--repeats=2")
        self.assertEqual([figure["name"] for figure in output["figures"]],
                         [system + quantity for system in ("servers", "local") for quantity in
                          [""] + [" " + phase for phase in PHASES] + [" log loss", " AUC"]])
        samples = {figure["name"]: figure["n"] for figure in output["figures"]}
        self.assertEqual((samples["servers"], samples["servers step"]), (2, 8))
        self.assertEqual([ratio["name"] for ratio in output["ratios"]], ["servers / local"])
        figures = self.medians(output)
        self.assertGreater(figures["servers"], 0)
        self.check_agreement(output)
        for phase in PHASES:
            self.assertIn("| " + phase + " ", self.stdout)

    def test_phases_add_up_to_the_step(self):
        output = self.measure("--no-reference")
        samples = {figure["name"]: figure["samples"] for figure in output["figures"]}
        for i, step in enumerate(samples["servers step"]):
            self.assertAlmostEqual(sum(samples["servers " + phase][i] for phase in PHASES[:-1]),
                                   step, places=6)

    def test_several_trainers_and_servers_agree_with_the_single_process(self):
        for optimizer, tolerance in (("sgd", 1e-4), ("rowwise-adagrad", 2e-2)):
            self.check_agreement(self.measure("--trainers=3", "--servers=2", "--multi-hot=3",
                                              "--optimizer=" + optimizer), tolerance)

    def test_the_same_seed_gives_the_same_predictions(self):
        first, second, other = (self.medians(self.measure("--no-reference", seed, "--ids=uniform"))
                                for seed in ("--seed=1", "--seed=1", "--seed=2"))
        self.assertEqual(first["servers log loss"], second["servers log loss"])
        self.assertNotEqual(first["servers log loss"], other["servers log loss"])

    def test_tcp(self):
        self.check_agreement(self.measure("--transport=tcp"))

    def test_calls_of_all_kinds_give_the_same_predictions(self):
        figures = [self.medians(self.measure(*flags)) for flags in
                   ((), ("--no-prefetch", "--no-reference"))]
        for other in figures[1:]:
            self.assertEqual(other["servers log loss"], figures[0]["servers log loss"])

    def test_stale_rows_are_not_compared(self):
        for trainers in ("--trainers=1", "--trainers=2"):
            figures = self.medians(self.measure("--staleness=2", trainers))
            self.assertAlmostEqual(figures["servers log loss"], figures["local log loss"],
                                   delta=0.1)
            self.assertNotIn("differ by at most", self.stdout)

    def check_peer(self, output, name):
        """Checks the measurements of a peer, or the reason why it is left out."""
        peers = {peer["name"]: peer for peer in output["peers"]}
        if name not in peers:
            self.assertRegex(self.stdout, "(?m)^%s is left out: .+$" % name)
            self.assertTrue(output["facts"][name + " is left out"])
            return
        self.assertTrue(peers[name]["version"].startswith("torch "))
        self.assertIn("servers / " + name, [ratio["name"] for ratio in output["ratios"]])
        self.assertRegex(self.stdout, "samples/s of servers / %s: [0-9.]+, the median; " % name)
        figures = {figure["name"]: figure for figure in peers[name]["figures"]}
        # The initial values differ, but the labels are the same.
        self.assertAlmostEqual(figures["dlrm log loss"]["p50"],
                               self.medians(output)["servers log loss"], delta=0.3)
        for i, step in enumerate(figures["dlrm step"]["samples"]):
            self.assertAlmostEqual(sum(figures["dlrm " + phase]["samples"][i]
                                       for phase in PHASES[:-1]), step, places=6)

    def test_peers_train_the_same_samples(self):
        for trainers in ("--trainers=1", "--trainers=2"):
            output = self.measure("--peer=both", "--multi-hot=2", "--repeats=2", trainers)
            for name in PEERS:
                self.check_peer(output, name)

    def test_optimizers_of_peers(self):
        for flags in (("--peer=torchrec", "--optimizer=sgd"),
                      ("--peer=torchrec", "--optimizer=adagrad", "--trainers=2"),
                      ("--peer=pytorch", "--optimizer=adam", "--trainers=2")):
            self.check_peer(self.measure(*flags), flags[0].split("=")[1])

    def test_torchrec_without_adam(self):
        output = self.measure("--peer=torchrec", "--optimizer=adam")
        self.assertEqual(output["peers"], [])
        self.check_peer(output, "torchrec")

    def test_without_pytorch_the_peers_are_left_out(self):
        for peer in PEERS + ("both",):
            result = self.run_world("--smoke", "--peer=" + peer, "--json=out.json",
                                    THRIFTPS_PYTHON="/bin/false")
            self.assertEqual(result.code, 0, result)
            for name in PEERS:
                self.assertEqual(name + " is left out: " in result.stdout, peer in (name, "both"))

    def write_interpreter(self, body):
        """Returns the path of a fake Python, the value of THRIFTPS_PYTHON."""
        self.write("python", FAKE_PYTHON + body)
        path = os.path.join(self.folder, "python")
        os.chmod(path, 0o755)
        return path

    def test_a_peer_has_a_process_for_each_trainer(self):
        python = self.write_interpreter("""
serve("torch of " + name)
""")
        output = self.measure("--peer=both", "--trainers=3", "--repeats=2",
                              THRIFTPS_PYTHON=python)
        for name in PEERS:
            self.check_peer(output, name)
        for name, peer in zip(PEERS, output["peers"]):
            self.assertEqual((peer["name"], peer["version"]), (name, "torch of " + name))
            figures = {figure["name"]: figure for figure in peer["figures"]}
            self.assertEqual((figures["dlrm"]["n"], figures["dlrm step"]["n"]), (2, 3 * 2 * 4))
            # The slowest process determines the rate: 3 trainers, 4 steps and 64 samples in 2 s.
            self.assertAlmostEqual(figures["dlrm"]["p50"], 3 * 4 * 64 / 2)

    def test_a_peer_may_be_left_out_alone(self):
        python = self.write_interpreter("""
if name == "torchrec":
    print("skip there is no such module")
else:
    serve("torch 0")
""")
        output = self.measure("--peer=both", THRIFTPS_PYTHON=python)
        self.assertEqual([peer["name"] for peer in output["peers"]], ["pytorch"])
        self.assertIn("torchrec is left out: there is no such module\n", self.stdout)
        self.check_peer(output, "torchrec")

    def test_a_peer_that_fails_later_ends_the_run(self):
        for body, message in (("print('torch 0\\nerror no table', flush=True)", "no table"),
                              ("print('torch 0', flush=True)", "pytorch, process 0")):
            python = self.write_interpreter(body + "\n")
            result = self.run_world("--smoke", "--peer=pytorch", THRIFTPS_PYTHON=python)
            self.assertEqual(result.code, 1, result)
            self.assertIn(message, result.stderr)

    def test_a_bad_flag_is_a_line(self):
        for flag in ("--bogus", "--trainers=0", "--servers=65", "--batch=0", "--ids=other",
                     "--scale=0", "--scale=nan", "--exponent=-1", "--optimizer=none",
                     "--transport=pigeon", "--peer=nobody", "--multi-hot=0", "--staleness=65",
                     "--threads=0"):
            self.assert_bad_flag("--smoke", flag)
        self.assert_bad_flag("--smoke", "--peer=both", "--optimizer=ftrl")

    def kill_trainer(self, run, rank):
        """Whether a living trainer was killed."""
        for pid in run.living():
            try:
                with open("/proc/%d/cmdline" % pid, encoding="utf-8") as file:
                    is_it = "--role=trainer\0--rank=%d\0" % rank in file.read()
                if is_it:
                    os.kill(pid, signal.SIGKILL)
                    return True
            except (FileNotFoundError, ProcessLookupError):  # a process that has just ended
                pass
        return False

    def test_a_killed_trainer_ends_the_run(self):
        for rank in (0, 1):
            run = self.start("--smoke", "--repeats=1000", "--trainers=2")
            launcher.eventually(lambda each=run: "takes about" in each.stderr(),
                                "all processes are ready")
            launcher.eventually(lambda each=run, which=rank: self.kill_trainer(each, which),
                                "the trainer is there")
            result = run.finish()
            self.assertEqual(result.code, 1, result)
            self.assertIn("servers", result.stderr)
            self.assert_nothing_left(run)

    def test_ctrl_c(self):
        self.check_interrupt("--smoke", "--repeats=1000", n_processes=3)


if __name__ == "__main__":
    junit.main()
