# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Runs of //bench:parameter_server and related programs, and a test case that checks that no
process and no file of theirs remains.

    class Mine (launcher.TestCase):
        def test_it (self):
            result = self.run_world("--smoke", "--ntrainer=3")      # waits for the end
            run = self.start("--smoke", "--epochs=1000")            # does not
            run.wait_until_training()
            os.kill(run.roles()["trainer1"], signal.SIGKILL)
            result = run.finish()
"""

import collections
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import uuid

from peers import Client
from thrift.Thrift import TException
from thriftps.trainer import Trainer

PROGRAM = os.path.abspath(os.environ["PARAMETER_SERVER"])
WAIT_S = 120  # limit of every wait; shorter than a test's timeout, which would hide the reason

# Variables that launchers of many ranks set. They must not reach the worlds that the tests start.
FLEET_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
                   "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
                   "SLURM_NTASKS", "BUILD_WORKING_DIRECTORY")

# Small models of the original shape, but large enough that the bits of the parameters depend on
# every step.
TINY = ("--data=DummyDataSmall", "--model=DummyModelSmall")

# `stderr` excludes the lines of progress, which appear in long runs, and the log of the servers.
Result = collections.namedtuple("Result", "code stdout stderr")
PROGRESS = re.compile(r"^(?:(?:warm-up|round \d+ of \d+): .*|\w+: takes about .*|[\w ]+ "
                      r"starts?(?:; about .*)?)\n", re.MULTILINE)
LOG = re.compile(r"^thriftps-Message: .*\n", re.MULTILINE)


_reserved = []  # until this process exits


def free_port():
    """A free port that no other test is given, below the range that the kernel assigns by
    itself."""
    while True:
        port = random.randrange(10000, 32768)
        with socket.socket() as one:
            try:
                mark = socket.socket(socket.AF_UNIX)
                mark.bind("\0thriftps-test-port-%d" % port)
                one.bind(("0.0.0.0", port))
            except OSError:
                mark.close()
                continue
        _reserved.append(mark)
        return port


def eventually(check, what, seconds=WAIT_S):
    """Polls check() and returns its first true value."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("not within %g s: %s" % (seconds, what))
        time.sleep(0.005)


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has exited
        return b""


def is_alive(pid):
    """False for a process that has ended and is not yet reaped by its parent."""
    stat = _read("/proc/%d/stat" % pid)
    return bool(stat) and stat.rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")


def steps_done(address):
    """The steps of the running pass of the trainer at `address`; 0 before the pass."""
    try:
        with Client(address, Trainer) as calls:
            return calls.status().steps_done
    except TException:  # the trainer does not listen yet
        return 0


class Run:
    """A running parameter_server: the launcher of a world, or one role."""

    def __init__(self, flags, folder, stdout, environment, program=PROGRAM):
        self._mark = "THRIFTPS_TEST_RUN=%s" % uuid.uuid4()
        inherited = {k: v for k, v in os.environ.items() if k not in FLEET_VARIABLES}
        name, _, value = self._mark.partition("=")
        self._output = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        self.folder = folder
        self.process = subprocess.Popen(
            [program, *flags], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=stdout or self._output[0], stderr=self._output[1],
            env={**inherited, "TMPDIR": folder, name: value, **environment})

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def living(self):
        """Pids of all processes of this run, also of those that have a new parent."""
        mark = self._mark.encode()
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        return [pid for pid in pids if mark in _read("/proc/%d/environ" % pid).split(b"\0")
                and is_alive(pid)]

    def roles(self):
        """Pid by name: "trainer0", ..., "server2" of a world with two trainers."""
        pids = {}
        for pid in self.living():
            for flag in _read("/proc/%d/cmdline" % pid).decode().split("\0"):
                if flag.startswith("--rank="):
                    pids[int(flag[len("--rank="):])] = pid
        sockets = {int("".join(filter(str.isdigit, name))): name[:-len(".sock")]
                   for name in self._sockets()}
        return {sockets[rank]: pid for rank, pid in pids.items() if rank in sockets}

    def _sockets(self):
        folders = [f for f in os.listdir(self.folder) if f.startswith("thriftps-")]
        return [s for f in folders for s in os.listdir(os.path.join(self.folder, f))
                if s.endswith(".sock")]

    def _steps_done(self, trainer):
        paths = [os.path.join(self.folder, folder, trainer + ".sock")
                 for folder in os.listdir(self.folder) if folder.startswith("thriftps-")]
        return sum(steps_done("unix:" + path) for path in paths if os.path.exists(path))

    def wait_until_training(self, trainers=("trainer0", "trainer1")):
        """Every trainer has done a step of a pass and continues."""
        for trainer in trainers:
            eventually(lambda name=trainer: self.process.poll() is not None
                       or self._steps_done(name) > 0, trainer + " has done a step")
        if self.process.poll() is not None:
            raise AssertionError("it ended instead of training: %s" % (self.finish(),))

    def _said(self, which):
        # Reads without moving the file's position, which the program shares.
        fd = self._output[which].fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode()

    def stderr(self):
        """The output on stderr so far."""
        return self._said(1)

    def progress(self):
        """The first line of progress; empty if there is none yet."""
        found = PROGRESS.search(self._said(1))
        return found.group() if found else ""

    def finish(self, seconds=WAIT_S):
        code = self.process.wait(seconds)
        return Result(code, self._said(0), LOG.sub("", PROGRESS.sub("", self._said(1))))

    def kill(self):
        for pid in self.living():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(WAIT_S)
        for output in self._output:
            output.close()


class TestCase(unittest.TestCase):
    maxDiff = None
    program = PROGRAM

    def setUp(self):
        # In /tmp, because the path of a Unix socket has at most 107 bytes.
        self.folder = tempfile.mkdtemp(prefix="bench-", dir="/tmp")
        self._runs = []
        self.addCleanup(self._clean_up)

    def _clean_up(self):
        for run in self._runs:
            run.kill()
        shutil.rmtree(self.folder)

    def start(self, *flags, stdout=None, **environment):
        run = Run(flags, self.folder, stdout, environment, self.program)
        self._runs.append(run)
        return run

    def run_world(self, *flags, **environment):
        """Runs the program to its end; nothing of it may remain."""
        run = self.start(*flags, **environment)
        result = run.finish()
        self.assert_nothing_left(run)
        return result

    def run_well(self, *flags, **environment):
        """The same for a run that must succeed with an empty stderr."""
        result = self.run_world(*flags, **environment)
        self.assertEqual((result.code, result.stderr), (0, ""), result)
        return result

    def run_to_json(self, *flags, **environment):
        """The --json output of a run that succeeds."""
        self.run_well("--json=out.json", *flags, **environment)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            return json.load(file)

    def assert_nothing_left(self, run, files=False):
        """No process may remain; nor any file, unless the launcher could not clean up
        (files=False)."""
        eventually(lambda: not run.living(), "all processes of the run have ended")
        if not files:
            self.assertEqual([f for f in os.listdir(self.folder) if f.startswith("thriftps-")], [])

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def assert_bad_flag(self, *flags, word=None):
        """The program refuses the last flag in one line, which has the word."""
        result = self.run_world(*flags)
        self.assertEqual((result.code, result.stderr.count("\n")), (2, 1), result)
        self.assertIn(word or flags[-1].split("=")[0], result.stderr)

    def check_interrupt(self, *flags, n_processes):
        """An interrupt ends a run that has more than so many processes."""
        run = self.start(*flags)
        eventually(lambda: len(run.living()) > n_processes, "its processes are there")
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish().code, 130)
        self.assert_nothing_left(run)

    def assert_refused(self, result, *words, code=2):
        """One line on stderr with all the words, and nothing on stdout."""
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("parameter_server: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertNotIn("metrics for", result.stdout)
