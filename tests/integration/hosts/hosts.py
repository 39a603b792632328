# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Hosts that are network, PID and UTS namespaces of this machine, on a switch of their own. They
look like a fleet to its programs.

    class Mine (hosts.TestCase):
        def test_it (self):
            role = self.start_on (2, "--smoke", "--rank=1")           # a parameter_server on host2
            self.unplug (2)
            result = role.finish ()

Host N has the addresses 10.99.0.N and fd99::N. Its /etc/hosts lists the other hosts; a test may
replace the list. The rest of the machine is not affected: its interfaces, addresses and files are
unchanged.
"""

import os
import shutil
import signal
import unittest

import launcher
import namespaces

N_HOSTS = 4


class TestCase(launcher.TestCase):

    @classmethod
    def setUpClass(cls):
        reason = namespaces.why_not()
        if reason is not None:
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        self._network = namespaces.Network()
        self.addCleanup(self._network.close)
        self._switch = self._network.add_switch("switch")
        self._hosts = {}
        for number in range(1, N_HOSTS + 1):
            host = self._hosts[number] = self._network.add_host("host%d" % number)
            self._network.connect(host, "eth0", self._switch, "port%d" % number,
                                  ["10.99.0.%d/24" % number, "fd99::%d/64" % number])

    def unplug(self, number):
        """Unplugs the cable: packets are lost without notice to either side."""
        self._network.ip(self._switch, "link set port%d down" % number)

    def start_on(self, number, *flags, names=None, **environment):
        """The program of the test case on host `number`. `names`: other lines for its /etc/hosts,
        {name: address}."""
        known = {"localhost": "127.0.0.1"}
        known.update(("host%d" % n, "10.99.0.%d" % n) for n in range(1, N_HOSTS + 1))
        known.update(names or {})
        path = os.path.join(self.folder, "hosts-%d" % len(self._runs))
        with open(path, "w", encoding="ascii") as file:
            file.writelines("%s %s\n" % (address, name) for name, address in known.items())
        run = launcher.Run(
            self._network.command(self._hosts[number], "host%d" % number, self.program, *flags,
                                  names=path),
            self.folder, None, environment, shutil.which("ip"))
        self._runs.append(run)
        return run

    def kill(self, run):
        """Kills the role as the kernel would; its host remains."""
        for pid in run.living():
            with open("/proc/%d/comm" % pid, encoding="ascii") as file:
                name = file.read().strip()
            if name == os.path.basename(self.program)[:15]:
                os.kill(pid, signal.SIGKILL)
