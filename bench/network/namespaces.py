# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Hosts that are network, PID and UTS namespaces of this machine, on switches that are bridges in
namespaces of their own. They look like a fleet to its programs.

    with namespaces.Network() as network:
        switch = network.add_switch("switch")
        host = network.add_host("host1")
        network.connect(host, "eth0", switch, "port1", ["10.99.0.1/24"])
        subprocess.run(["ip", *network.command(host, "host1", program, "--flag")])

Nothing outside the namespaces is changed: the machine's interfaces, addresses and files stay as
they are. close() removes all namespaces, and the creation of a network removes those of processes
that were killed before they could.
"""

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess

TOOLS = ("ip", "unshare")

# Not every PATH contains the folders of administrators' tools.
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


@contextlib.contextmanager
def without_signals():
    """Signals that terminate a program wait, so that they do not cut its cleaning up short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK,
                                    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def why_not(tools=TOOLS):
    """The missing requirement; None if namespaces can be created."""
    if os.geteuid() != 0:
        return "needs root: it makes network namespaces"
    for tool in tools:
        if shutil.which(tool) is None:
            return "needs the program %s" % tool
    probe = "tps%d-probe" % os.getpid()
    with without_signals():
        made = subprocess.run(["ip", "netns", "add", probe], stderr=subprocess.PIPE, check=False)
        subprocess.run(["ip", "netns", "del", probe], stderr=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        return "cannot make a network namespace: %s" % made.stderr.decode().strip()
    return None


def _list_namespaces():
    # The command prints errors about namespaces that are being removed.
    text = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return [line.split()[0] for line in text.splitlines() if line]


def _remove_leftovers():
    for name in _list_namespaces():
        owner = re.match(r"tps(\d+)-", name)
        if owner and not os.path.exists("/proc/" + owner.group(1)):
            # Another process may remove the namespace at the same time.
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


class Network:
    """The namespaces of one network. A context manager, which closes it."""

    def __init__(self):
        self._prefix = "tps%d-" % os.getpid()
        self._namespaces = []
        atexit.register(self.close)  # for a signal on the way to close()
        _remove_leftovers()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Removes all namespaces."""
        with without_signals():
            while self._namespaces:
                subprocess.run(["ip", "netns", "del", self._namespaces.pop()],
                               start_new_session=True, check=False)
        atexit.unregister(self.close)

    def ip(self, namespace, command):
        subprocess.run(["ip", "-n", namespace, *command.split()], check=True)

    def set_option(self, namespace, name, value):
        """Sets a kernel option (sysctl) for one namespace."""
        subprocess.run(["ip", "netns", "exec", namespace, "sh", "-c", 'echo "$1" >"/proc/sys/$2"',
                        "sh", value, name], check=True)

    def add_host(self, name):
        """A namespace with nothing but its loopback; returns its full name."""
        namespace = self._prefix + name
        # A signal while the command starts would leave it running behind close().
        with without_signals():
            subprocess.run(["ip", "netns", "add", namespace], check=True)
            self._namespaces.append(namespace)
        self.ip(namespace, "link set lo up")
        return namespace

    def add_switch(self, name):
        """A namespace with the bridge br0."""
        switch = self.add_host(name)
        self.ip(switch, "link add br0 type bridge")
        self.ip(switch, "link set br0 up")
        return switch

    def connect(self, host, device, switch, port, addresses):
        """A cable between `device` of the host and `port` of the switch."""
        self.ip(host, "link add %s type veth peer name %s netns %s" % (device, port, switch))
        self.ip(switch, "link set %s master br0" % port)
        self.ip(switch, "link set %s up" % port)
        for address in addresses:
            self.ip(host, "address add %s dev %s%s"
                    % (address, device, " nodad" if ":" in address else ""))
        self.ip(host, "link set %s up" % device)

    def command(self, host, hostname, *argv, names=None):
        """The arguments of `ip` that run `argv` on the host, in a PID namespace whose processes end
        with it. `names`: a file that is its /etc/hosts."""
        become = 'hostname "$1" && shift && exec "$@"'
        args = [hostname]
        if names is not None:
            become = 'mount --bind "$1" /etc/hosts && shift && ' + become
            args.insert(0, names)
        return ["netns", "exec", host, "unshare", "--mount", "--uts", "--pid", "--fork",
                "--kill-child", "--mount-proc", "sh", "-c", become, "sh", *args, *argv]
