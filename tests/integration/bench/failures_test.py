# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""After every failure in a world the launcher prints a reason, exits non-zero and leaves nothing
behind."""

import os
import signal

import junit
import launcher

# A pass with steps of a millisecond that would take minutes.
LONG = (*launcher.TINY, "--batch-size=4", "--epochs=1000000")

# A short timeout that is longer than a step of a running trainer on a busy machine.
HASTY = "--rpc-timeout=10"  # longer than a round on a busy machine


class Failures(launcher.TestCase):

    def start_long(self, *flags):
        run = self.start(*LONG, *flags)
        run.wait_until_training()
        return run

    def check_end(self, run, code, *words):
        result = run.finish()
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertNotIn("metrics for", result.stdout)
        self.assert_nothing_left(run)

    def test_a_role_that_is_killed_is_named(self):
        for name in ("trainer0", "trainer1", "server2"):
            for hook in ("rpc_hook", "allreduce_hook"):
                with self.subTest(name=name, hook=hook):
                    run = self.start_long("--ddp-hook=" + hook)
                    pid = run.roles()[name]
                    os.kill(pid, signal.SIGKILL)
                    self.check_end(run, 1, "%s (pid %d) was killed by signal 9" % (name, pid))

    def test_a_role_that_crashes_is_named(self):
        run = self.start_long()
        os.kill(run.roles()["trainer1"], signal.SIGSEGV)
        # A sanitizer reports the signal and converts it to an exit status.
        result = run.finish()
        self.assertEqual(result.code, 1)
        self.assertRegex(result.stderr, r"parameter_server: trainer1 \(pid \d+\) (was killed by "
                                        r"signal 11|ended with)")
        self.assert_nothing_left(run)

    def test_a_trainer_that_stops_is_named_by_the_server(self):
        run = self.start_long(HASTY)
        os.kill(run.roles()["trainer0"], signal.SIGSTOP)
        self.check_end(run, 1, "trainer1: its pass failed", "missing: trainer 0")

    def test_a_server_that_stops_is_named(self):
        run = self.start_long(HASTY)
        os.kill(run.roles()["server2"], signal.SIGSTOP)
        self.check_end(run, 1, "its pass failed", "no reply from", "server2.sock")

    def test_a_trainer_that_stops_in_an_all_reduce_ends_it(self):
        run = self.start_long(HASTY, "--ddp-hook=allreduce_hook")
        os.kill(run.roles()["trainer0"], signal.SIGSTOP)
        self.check_end(run, 1, "trainer1: its pass failed")

    def test_ctrl_c(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                run = self.start_long()
                run.signal(number)
                self.check_end(run, 130, "parameter_server: interrupted\n")

    def test_ctrl_c_with_a_role_that_does_not_listen(self):
        run = self.start_long()
        os.kill(run.roles()["trainer1"], signal.SIGSTOP)
        run.signal(signal.SIGINT)
        self.check_end(run, 130, "interrupted")

    def test_a_second_ctrl_c_ends_it_at_once(self):
        run = self.start_long()
        os.kill(run.roles()["trainer1"], signal.SIGSTOP)  # now the others must wait
        run.signal(signal.SIGINT)
        run.signal(signal.SIGINT)
        self.assertIn(run.finish().code, (-signal.SIGINT, 130))
        self.assert_nothing_left(run, files=True)

    def test_a_launcher_that_is_killed_takes_its_roles_along(self):
        run = self.start_long()
        self.assertEqual(len(run.living()), 4)
        run.signal(signal.SIGKILL)
        self.assertEqual(run.finish().code, -signal.SIGKILL)
        self.assert_nothing_left(run, files=True)

    def test_a_launcher_that_is_killed_at_its_start_takes_its_roles_along(self):
        run = self.start(*LONG)
        launcher.eventually(lambda: len(run.living()) > 2, "the first roles are there")
        run.signal(signal.SIGKILL)
        self.assertEqual(run.finish().code, -signal.SIGKILL)
        self.assert_nothing_left(run, files=True)

    def test_output_that_nobody_reads_any_more(self):
        read, write = os.pipe()
        os.close(read)
        run = self.start("--smoke", "--json=out.json", stdout=write)
        os.close(write)
        self.assertIn("parameter_server: ", run.finish().stderr)
        self.assertEqual(run.finish().code, 1)
        self.assert_nothing_left(run)


class Peers(launcher.TestCase):
    """A missing interpreter of a peer must not look like a failed run of ours."""

    def test_a_python_that_fails(self):
        self.assert_refused(self.run_world("--smoke", "--peer=pytorch",
                                           THRIFTPS_PYTHON="/bin/false"),
                            "peer pytorch", "ended with status 1", "/bin/false", "python3-torch",
                            code=1)

    def test_ctrl_c_while_a_peer_starts(self):
        script = self.write("sleeper", "#!/bin/sh\nexec sleep 1000\n")
        os.chmod(os.path.join(self.folder, script), 0o700)
        run = self.start("--smoke", "--peer=pytorch",
                         THRIFTPS_PYTHON=os.path.join(self.folder, script))
        launcher.eventually(lambda: len(run.living()) == 5, "the peer is there")
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish().code, 130)
        self.assert_nothing_left(run)


if __name__ == "__main__":
    junit.main()
