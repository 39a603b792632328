# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:transfer: its output and its JSON; no process or file remains."""

import json
import os
import shutil
import signal
import unittest

import junit
import launcher

OPS = ("push", "pull", "echo")
TRANSPORTS = ("tcp", "unix", "shm")


class Transfer(launcher.TestCase):
    program = os.path.abspath(os.environ["TRANSFER"])

    def run_to_output(self, *flags):
        result = self.run_world("--smoke", "--json=out.json", *flags)
        self.assertEqual(result.code, 0, result)  # stderr may have a line of progress
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "transfer"))
        medians = [figure["p50"] for figure in output["figures"]]
        for ratio in output["ratios"]:
            self.assertIn(ratio["ours"], medians)
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])
            self.assertGreater(ratio["ratio"], 0)
        return result, output

    def test_every_row_stands_next_to_the_raw_socket(self):
        result, output = self.run_to_output()
        units = {figure["name"]: figure["unit"] for figure in output["figures"]}
        ratios = {ratio["name"] for ratio in output["ratios"]}
        for op in OPS:
            for size in ("1 KiB", "1 MiB"):
                for transport in TRANSPORTS:
                    row = "%s %s %s" % (op, size, transport)
                    with self.subTest(row=row):
                        self.assertIn("\n" + row, result.stdout)
                        self.assertEqual((units[row], units[row + " time"], units[row + " calls"]),
                                         ("GB/s", "ms", "calls/s"))
                        self.assertEqual((units[row + " client CPU"], units[row + " server CPU"]),
                                         ("s/GB", "s/GB"))
                        self.assertIn(row + " / raw", ratios)
                        self.assertEqual(row + " / memcpy" in ratios, transport == "shm")
        self.assertEqual(units["small calls, 8 clients"], "calls/s")

    def test_one_row_alone(self):
        _, output = self.run_to_output("--op=push", "--bytes=65536", "--connections=2",
                                       "--in-flight=4", "--calls=16", "--seconds=0")
        times = [figure for figure in output["figures"]
                 if figure["name"] == "push 64 KiB x2 /4 tcp time"]
        self.assertEqual([figure["n"] for figure in times], [16])
        self.assertEqual({figure["name"].rsplit(" " + transport)[0] for figure in output["figures"]
                          for transport in TRANSPORTS if " " + transport in figure["name"]},
                         {"push 64 KiB x2 /4"})
        self.assertEqual([str(output["flags"][flag])
                          for flag in ("op", "bytes", "connections", "in-flight", "calls")],
                         ["push", "65536", "2", "4", "16"])

    def test_a_size_alone_is_a_row_of_each_operation(self):
        _, output = self.run_to_output("--bytes=65536", "--transport=unix")
        self.assertEqual({figure["name"] for figure in output["figures"]
                          if figure["unit"] == "GB/s"},
                         {op + " 64 KiB unix" for op in OPS})

    def test_one_system_alone(self):
        _, output = self.run_to_output("--system=thriftps", "--transport=shm")
        self.assertEqual((output["peers"], output["ratios"]), ([], []))
        self.assertEqual({figure["name"].split()[-1] for figure in output["figures"]
                          if figure["unit"] == "GB/s"}, {"shm"})

    def test_tls(self):
        result, output = self.run_to_output("--transport=tls")
        units = {figure["name"]: figure["unit"] for figure in output["figures"]}
        for op in OPS:
            for size in ("1 KiB", "1 MiB"):
                row = "%s %s tls" % (op, size)
                self.assertIn("\n" + row, result.stdout)
                self.assertEqual((units[row], units[row + " server CPU"]), ("GB/s", "s/GB"))
        self.assertEqual((output["flags"]["tls"], output["peers"]), ("true", []))

    @unittest.skipUnless(shutil.which("openssl"), "needs the program openssl")
    def test_tls_beside_openssl(self):
        result, output = self.run_to_output("--transport=tls", "--peers", "--bytes=1048576")
        self.assertEqual([peer["name"] for peer in output["peers"]], ["openssl"])
        self.assertEqual({ratio["name"] for ratio in output["ratios"]},
                         {"push 1 MiB tls / openssl", "pull 1 MiB tls / openssl",
                          "handshakes tls / openssl"})
        for system in ("thriftps", "openssl"):
            self.assertRegex(result.stdout, r"\nhandshakes tls, %s: \d" % system)

    def test_nobody_is_told_the_key_of_a_run(self):
        run = self.start("--transport=tls", "--op=push", "--repeats=1000", "--json=out.json")
        launcher.eventually(lambda: len(run.living()) > 2, "its processes are there")
        words = [word for pid in run.living() for name in ("cmdline", "environ")
                 for word in launcher._read("/proc/%d/%s" % (pid, name)).split(b"\0")]
        files = {word.partition(b"=")[2] for word in words if word.startswith(b"--certificate=")}
        self.assertEqual(len(files), 1, files)
        path = files.pop()
        self.assertEqual(os.stat(path).st_mode & 0o077, 0)
        with open(path, "rb") as file:
            key = file.read().partition(b"-----BEGIN PRIVATE KEY-----\n")[2].splitlines()[0]
        self.assertGreater(len(key), 40)
        self.assertFalse([word for word in words if key in word])
        run.signal(signal.SIGINT)
        result = run.finish()
        self.assertNotIn(key.decode(), result.stdout + result.stderr)
        self.assertFalse(os.path.exists(path))
        self.assert_nothing_left(run)

    def test_idle_connections(self):
        result, output = self.run_to_output("--op=push", "--bytes=1024", "--idle=200")
        figures = {figure["name"]: figure for figure in output["figures"]}
        self.assertGreater(figures["small calls, 8 clients, 200 idle"]["p50"], 0)
        self.assertGreater(figures["small calls, 8 clients, 0 idle"]["p50"], 0)
        # More than zero, because a connection has buffers, but less than a small buffer per
        # connection.
        self.assertLess(0, figures["200 idle connections, memory of each"]["p50"])
        self.assertLess(figures["200 idle connections, memory of each"]["p50"], 20)
        self.assertIn("200 idle connections: ", result.stdout)

    def test_peers(self):
        _, output = self.run_to_output("--peers", "--op=echo", "--bytes=65536")
        self.assertLessEqual({"raw", "libthrift TThreaded", "C GLib", "tensorpipe"},
                             {peer["name"] for peer in output["peers"]})
        self.assertIn("echo 64 KiB shm / tensorpipe", {ratio["name"] for ratio in output["ratios"]})

    def test_a_bad_flag_is_a_line(self):
        for flag, word in (("--bogus", "bogus"), ("--op=pour", "push or pull or echo"),
                           ("--connections=65", "1 to 64"), ("--bytes=6", "multiple of 4"),
                           ("--seconds=-1", "from 0 up"), ("--idle=-7", "0 to"),
                           ("--transport=x", "tcp or unix or shm or tls"),
                           ("--system=x", "thriftps")):
            with self.subTest(flag=flag):
                self.assert_bad_flag(flag, word=word)

    def test_ctrl_c(self):
        self.check_interrupt("--repeats=1000", n_processes=1)


if __name__ == "__main__":
    junit.main()
