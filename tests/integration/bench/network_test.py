# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:network: its output, its bound, and its end; no namespace, process or file remains."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from unittest import mock

import junit
import launcher
import namespaces

PROGRAM = os.path.abspath(os.environ["NETWORK"])


def list_namespaces(pid):
    names = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=True).stdout.split()
    return [name for name in names if name.startswith("tps%d-" % pid)]


class Network(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        reason = namespaces.why_not(("ip", "unshare", "tc", "setpriv"))
        if reason is not None:
            raise unittest.SkipTest(reason)

    def setUp(self):
        # In /tmp, because the path of a Unix socket has at most 107 bytes.
        self.folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *flags):
        return subprocess.Popen([PROGRAM, *flags], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "TMPDIR": self.folder})

    def measure(self, *flags):
        """(table, JSON) of a run that succeeds."""
        run = self.start("--smoke", "--json=out.json", *flags)
        said, errors = run.communicate(timeout=launcher.WAIT_S)
        self.assertEqual(run.returncode, 0, errors)
        self.assertEqual(list_namespaces(run.pid), [])
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            return said, json.load(file)

    def test_the_report(self):
        said, output = self.measure("--compress=none,fp16")
        self.assertEqual((output["schema"], output["benchmark"]), (1, "network"))
        figures = {figure["name"]: figure for figure in output["figures"]}
        ratios = {ratio["name"]: ratio for ratio in output["ratios"]}
        compute = {name: figures[name]["p50"] for name in ("forward", "backward", "optimizer")}
        for hook in ("rpc", "allreduce"):
            for compress in ("none", "fp16"):
                name = "%s, %s, 1gbit" % (hook, compress)
                self.assertEqual(figures[name]["n"], 4)  # 2 steps of 2 trainers
                link_ms = figures[name + ", bytes"]["p50"] * 8e3 / 1e9
                bound = compute["forward"] + compute["optimizer"] + max(compute["backward"],
                                                                       link_ms)
                self.assertAlmostEqual(figures[name + ", bound"]["p50"], bound)
                self.assertEqual(ratios[name + " / bound"]["ours"], figures[name]["p50"])
            self.assertIn("%s, fp16, 1gbit / none" % hook, ratios)
            # With fp16, a pass sends halves instead of floats, so it sends little more than half of
            # the bytes.
            self.assertLess(figures["%s, fp16, 1gbit, bytes" % hook]["p50"],
                            0.75 * figures["%s, none, 1gbit, bytes" % hook]["p50"])
        for hook in ("rpc", "allreduce"):
            for compress in ("none", "fp16"):
                self.assertRegex(said, r"\n1gbit +%s +%s " % (hook, compress))

    def test_a_relay_with_delay_and_loss(self):
        _, output = self.measure("--hooks=rpc", "--delay-ms=20", "--loss=1")
        steps = {figure["name"]: figure["min"] for figure in output["figures"]}
        # A gradient and its average each cross two links.
        self.assertGreater(steps["rpc, none, 1gbit, 20 ms, 1 % loss"], 40)

    def test_an_interrupt_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            run = self.start("--smoke", "--steps=32", "--rates=1mbit")
            launcher.eventually(lambda run=run: list_namespaces(run.pid), "it has made a namespace")
            run.send_signal(number)
            _, errors = run.communicate(timeout=launcher.WAIT_S)
            self.assertEqual(run.returncode, 130, errors)
            self.assertEqual(list_namespaces(run.pid), [])

    def test_an_interrupt_while_a_namespace_is_made(self):
        late = []

        def start_late(argv, **_):
            late.append(subprocess.Popen(["sh", "-c", 'read _; exec "$@"', "sh", *argv],
                                         stdin=subprocess.PIPE))
            os.kill(os.getpid(), signal.SIGINT)
            late[0].communicate(b"\n")

        with self.assertRaises(KeyboardInterrupt), namespaces.Network() as network:
            with mock.patch.object(namespaces.subprocess, "run", start_late):
                network.add_host("host")
        if late[0].poll() is None:
            late[0].communicate(b"\n")
        self.assertEqual(list_namespaces(os.getpid()), [])

    def test_a_killed_run_is_cleaned_up_by_the_next(self):
        run = self.start("--smoke", "--steps=32", "--rates=1mbit")
        launcher.eventually(lambda: list_namespaces(run.pid), "it has made a namespace")
        run.kill()
        run.communicate(timeout=launcher.WAIT_S)
        with namespaces.Network():
            self.assertEqual(list_namespaces(run.pid), [])

    def test_a_world_that_fails(self):
        run = self.start("--smoke", "--hooks=rpc", "--flag=--model=Nothing")
        _, errors = run.communicate(timeout=launcher.WAIT_S)
        self.assertEqual(run.returncode, 1)
        self.assertIn('trainer1 said: parameter_server: built in, "Nothing": unknown id', errors)
        self.assertEqual(list_namespaces(run.pid), [])


class Refusals(unittest.TestCase):

    def run_with_path(self, path, *flags):
        return subprocess.run([PROGRAM, *flags], env={**os.environ, "PATH": path}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def test_a_machine_without_namespaces(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ip")
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
            os.chmod(path, 0o755)
            result = self.run_with_path(folder + os.pathsep + os.environ["PATH"], "--smoke")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertRegex(result.stdout, r"^network: skipped: (needs root: it makes network "
                                        r"namespaces|.*: no namespaces here)$")

    def test_bad_flags(self):
        for flag, word in (("--rates=fast", "100mbit"), ("--hooks=none", "sparse_rpc"),
                           ("--servers=0", "from 1"), ("--loss=100", "below 100"),
                           ("--congestion=none", "reno")):
            result = self.run_with_path(os.environ["PATH"], flag)
            self.assertEqual(result.returncode, 2)
            self.assertIn(word, result.stderr)


if __name__ == "__main__":
    junit.main()
