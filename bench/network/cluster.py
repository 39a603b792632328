# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The hosts of one world, with links of a limited rate.

Every host has two networks. The data network (10.99.0.N, eth0) is limited in both directions by
tbf: on the host's end of the cable for the bytes that the host sends, on the switch's end for those
that it receives. The control network (10.98.0.N, eth1) has no limit; only the master uses it, so
that batches, status calls and metrics are not counted as traffic of a step.

With a delay or losses, `relay` is the switch of the data network, because kernels need not have
netem.
"""

import collections
import json
import os
import signal
import subprocess
import tempfile

import namespaces

TOOLS = (*namespaces.TOOLS, "tc", "setpriv")

# A token bucket must hold the bytes that the link passes between two runs of its timer, and one
# segment of 64 KiB that the kernel has not split yet.
BURST_S = 0.001
MIN_BURST = 128 * 1024
# The maximum time that a packet waits for a link. Later packets are lost, as on a switch.
QUEUE_MS = 50


# rate: bit/s, 0 = no limit; loss: percent; congestion: the congestion control of TCP. The default
# of the machine may be one that few networks use.
Links = collections.namedtuple("Links", "rate delay_ms loss congestion")
NO_LIMIT = Links(0, 0, 0, "reno")


class Failed(Exception):
    """A role ended with an error."""


class Cluster:
    """`n_hosts` hosts with `links`, and the host of the master after them."""

    def __init__(self, n_hosts, links, relay_program):
        self._n_hosts = n_hosts
        self._roles = []
        self._hosts = []
        self._relay = None
        self._network = namespaces.Network()
        self._folder = tempfile.TemporaryDirectory(prefix="network-")
        self.folder = self._folder.name
        try:
            self._build(links, relay_program)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with namespaces.without_signals():
            for role in [*self._roles, *([self._relay] if self._relay else [])]:
                role.close()
            self._network.close()
            self._folder.cleanup()

    # -- networks --

    def _build(self, links, relay_program):
        network = self._network
        self._data = network.add_switch("data")
        self._control = network.add_switch("control")
        for number in range(1, self._n_hosts + 1):
            host = network.add_host("host%d" % number)
            self._hosts.append(host)
            network.set_option(host, "net/ipv4/tcp_congestion_control", links.congestion)
            network.connect(host, "eth0", self._data, "data%d" % number,
                            ["10.99.0.%d/24" % number])
            self._connect_control(host, number)
            if links.rate:
                self._limit(host, "eth0", links.rate)
                self._limit(self._data, "data%d" % number, links.rate)
        if links.delay_ms or links.loss:
            self._start_relay(links.delay_ms, links.loss, relay_program)
        master = network.add_host("master")
        self._hosts.append(master)
        self._connect_control(master, self._n_hosts + 1)
        for number in range(1, self._n_hosts + 1):
            network.ip(master, "route add 10.99.0.%d via 10.98.0.%d" % (number, number))

    def _connect_control(self, host, number):
        self._network.connect(host, "eth1", self._control, "control%d" % number,
                              ["10.98.0.%d/24" % number])

    def _limit(self, namespace, device, rate):
        burst = max(MIN_BURST, int(rate / 8 * BURST_S))
        queue = burst + int(rate / 8 * QUEUE_MS / 1000)
        subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                        "%dbit" % rate, "burst", str(burst), "limit", str(queue)], check=True)

    def _start_relay(self, delay_ms, loss, program):
        """Gives each port a bridge of its own, whose other port is a tap of the relay."""
        taps = ["tap%d" % number for number in range(1, self._n_hosts + 1)]
        self._relay = self._run(self._data, "relay", subprocess.PIPE, program,
                                "--delay-us=%d" % (delay_ms * 1000), "--loss=%g" % (loss / 100),
                                *taps)
        if self._relay.process.stdout.readline().strip() != b"ready":
            raise Failed("relay: %s" % self._relay.read_errors())
        for number, tap in enumerate(taps, 1):
            network = self._network
            network.ip(self._data, "link add br%d type bridge" % number)
            network.ip(self._data, "link set br%d up" % number)
            network.ip(self._data, "link set data%d master br%d" % (number, number))
            network.ip(self._data, "link set %s master br%d" % (tap, number))
            network.ip(self._data, "link set %s up" % tap)

    def get_bytes(self):
        """(sent, received) of the data network since its creation, per host."""
        return [(self._count(host, "eth0"), self._count(self._data, "data%d" % number))
                for number, host in enumerate(self._hosts[:self._n_hosts], 1)]

    @staticmethod
    def _count(namespace, device):
        """Bytes that left by the device. A queue counts the headers of all packets into which a
        segment will be cut; the counters of the device count those of one."""
        text = subprocess.run(["tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", device],
                              stdout=subprocess.PIPE, check=True).stdout
        queues = json.loads(text)
        if not queues or queues[0].get("kind") != "tbf":
            text = subprocess.run(["ip", "-n", namespace, "-s", "-j", "link", "show", device],
                                  stdout=subprocess.PIPE, check=True).stdout
            return json.loads(text)[0]["stats64"]["tx"]["bytes"]
        return queues[0]["bytes"]

    # -- programs --

    def _run(self, host, hostname, stdout, *argv):
        return Role(hostname, self.folder, stdout,
                    ["ip", *self._network.command(host, hostname, *argv)])

    def start(self, number, name, *argv):
        """Runs a program on host `number`, from 1; the master's is the last."""
        role = self._run(self._hosts[number - 1], name, subprocess.DEVNULL, *argv)
        self._roles.append(role)
        return role

    def wait(self, show):
        """Waits for the end of all programs and calls show() every second. Raises Failed if one
        fails."""
        left = list(self._roles)
        while left:
            for role in list(left):
                try:
                    code = role.process.wait(1 / len(left))
                except subprocess.TimeoutExpired:
                    continue
                left.remove(role)
                if code != 0:
                    raise Failed("%s: exit status %d: %s" % (role.name, code, self._explain()))
            show()

    def _explain(self):
        """The errors of all roles: that of the cause may come a moment later than its effects."""
        for role in self._roles:
            try:
                role.process.wait(1)
            except subprocess.TimeoutExpired:
                pass
        said = [(role.name, role.read_errors()) for role in self._roles]
        return "; ".join("%s said: %s" % each for each in said if each[1]) or "no message"


class Role:
    """A running program on a host. It ends with this process, even if SIGKILL ends it."""

    def __init__(self, name, folder, stdout, argv):
        self.name = name
        self.errors = tempfile.TemporaryFile()
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                      "BUILD_WORKING_DIRECTORY")}
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *argv], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=stdout, stderr=self.errors, start_new_session=True,
            env={**environment, "TMPDIR": folder})

    def close(self):
        """Kills the program and all that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.errors.close()

    def read_errors(self):
        size = os.fstat(self.errors.fileno()).st_size
        text = os.pread(self.errors.fileno(), size, 0).decode(errors="replace")
        return "\n".join(line for line in text.splitlines() if "thriftps-Message" not in line)
