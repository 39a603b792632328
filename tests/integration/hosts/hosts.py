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
import subprocess
import unittest

import launcher

N_HOSTS = 4


def _why_not():
    """The missing requirement; None if namespaces can be created."""
    if os.geteuid() != 0:
        return "needs root: it makes network namespaces"
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            return "needs the program %s" % tool
    probe = "tps%d-probe" % os.getpid()
    made = subprocess.run(["ip", "netns", "add", probe], stderr=subprocess.PIPE, check=False)
    if made.returncode != 0:
        return "cannot make a network namespace: %s" % made.stderr.decode().strip()
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


class TestCase(launcher.TestCase):

    @classmethod
    def setUpClass(cls):
        reason = _why_not()
        if reason is not None:
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        self._prefix = "tps%d-" % os.getpid()
        self._switch = self._add_namespace("switch")
        self._ip(self._switch, "link add br0 type bridge")
        self._ip(self._switch, "link set br0 up")
        for number in range(1, N_HOSTS + 1):
            self._add_host(number)

    def _ip(self, namespace, command):
        subprocess.run(["ip", "-n", namespace, *command.split()], check=True)

    def _add_namespace(self, name):
        namespace = self._prefix + name
        subprocess.run(["ip", "netns", "add", namespace], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", namespace], check=True)
        self._ip(namespace, "link set lo up")
        return namespace

    def _add_host(self, number):
        host = self._add_namespace("host%d" % number)
        self._ip(host, "link add eth0 type veth peer name port%d netns %s" % (number, self._switch))
        self._ip(self._switch, "link set port%d master br0" % number)
        self._ip(self._switch, "link set port%d up" % number)
        self._ip(host, "address add 10.99.0.%d/24 dev eth0" % number)
        self._ip(host, "address add fd99::%d/64 dev eth0 nodad" % number)
        self._ip(host, "link set eth0 up")

    def unplug(self, number):
        """Unplugs the cable: packets are lost without notice to either side."""
        self._ip(self._switch, "link set port%d down" % number)

    def start_on(self, number, *flags, names=None, **environment):
        """A parameter_server on host `number`. `names`: other lines for its /etc/hosts, {name:
        address}."""
        known = {"localhost": "127.0.0.1"}
        known.update(("host%d" % n, "10.99.0.%d" % n) for n in range(1, N_HOSTS + 1))
        known.update(names or {})
        path = os.path.join(self.folder, "hosts-%d" % len(self._runs))
        with open(path, "w", encoding="ascii") as file:
            file.writelines("%s %s\n" % (address, name) for name, address in known.items())
        become = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
        run = launcher.Run(
            ["netns", "exec", "%shost%d" % (self._prefix, number), "unshare", "--mount", "--uts",
             "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", become, "sh", path,
             "host%d" % number, self.program, *flags],
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
