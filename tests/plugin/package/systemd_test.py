"""The installed units under a real systemd, which is process 1 of namespaces of its own.

This program runs in three places:

    systemd_test.py             the test: installs everything into a folder, and runs
    systemd_test.py inner OUT   in new namespaces: mounts folders for systemd, and becomes it
    systemd_test.py units       started by that systemd: uses the units (class Units)

Needs root, and a control group of version 2 to which it may add groups.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

INSTALL = os.path.abspath("plugin/package/install")
SYSTEMD = "/lib/systemd/systemd"
PREFIX = "/opt/thriftps"
OUT = "/run/out"  # the folder of the test inside the namespaces
UNITS = "/run/units"
CONFIG = PREFIX + "/etc/thriftps/server.json"
ADDRESS = ("127.0.0.1", 9090)
SERVICE = "thriftps.service"
CONTAINER = "thriftps-test"  # how systemd names its surroundings
WAIT_S = 60

DROP_IN = "[Service]\nStandardOutput=append:{0}\nStandardError=append:{0}\n".format(
    OUT + "/server")
DRIVER = """[Unit]
DefaultDependencies=no
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
PassEnvironment=container
TimeoutStartSec=%d
ExecStart=/usr/bin/python3 %s/systemd_test.py units
StandardOutput=append:%s/driver
StandardError=append:%s/driver
""" % (WAIT_S, OUT, OUT, OUT)
TARGET = "[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n"
PLAIN_CONFIG = '{"listen": ["127.0.0.1:9090"]}'
STATEFUL_CONFIG = """{"listen": ["127.0.0.1:9090", "unix:/run/thriftps/server"],
                      "data-dir": "/var/lib/thriftps/data", "log-segment-mib": 1}"""


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


# ---- in the namespaces ---------------------------------------------------------------------------


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def become_systemd(out):
    """Hides all folders that systemd and the server write to. Never returns."""
    mount("-t", "tmpfs", "none", "/run")
    os.makedirs(OUT)
    mount("--bind", out, OUT)
    for folder in ("/opt", "/var/lib", "/tmp", "/sys/fs/cgroup"):
        mount("-t", "tmpfs", "none", folder)
    mount("-t", "cgroup2", "none", "/sys/fs/cgroup")
    mount("--bind", "/proc/sys", "/proc/sys")
    mount("-o", "remount,bind,ro", "/proc/sys")  # parameters of the whole kernel
    shutil.copytree(OUT + "/stage" + PREFIX, PREFIX, symlinks=True)
    os.makedirs(UNITS + "/%s.d" % SERVICE)
    for unit in ("thriftps.service", "thriftps.socket"):
        shutil.copy(PREFIX + "/lib/systemd/system/" + unit, UNITS)
    write(UNITS + "/%s.d/output.conf" % SERVICE, DROP_IN)
    write(UNITS + "/driver.service", DRIVER)
    write(UNITS + "/test.target", TARGET + "Wants=driver.service\n")
    for target in ("sysinit", "basic", "shutdown", "sockets", "network-online"):
        write(UNITS + "/%s.target" % target, TARGET)
    os.environ.update(container=CONTAINER, SYSTEMD_UNIT_PATH=UNITS,
                      SYSTEMD_LOG_TARGET="console", PATH="/usr/sbin:/usr/bin:/sbin:/bin")
    os.execv(SYSTEMD, [SYSTEMD, "--system", "--unit=test.target", "--show-status=no"])


# ---- under systemd -------------------------------------------------------------------------------


def control(*arguments, check=True):
    done = subprocess.run(["systemctl", "--no-pager", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", check=False)
    if check and done.returncode != 0:
        raise AssertionError("systemctl %s: exit code %d\n%s\n%s" % (
            " ".join(arguments), done.returncode, done.stdout,
            control("status", SERVICE, check=False).stdout))
    return done


def show(name):
    return control("show", "-P", name, SERVICE).stdout.strip()


def wait_for(condition):
    """The driver has a timeout."""
    while not condition():
        pass


def describe(address=ADDRESS):
    """Calls Node.describe on a new connection. Returns whether it was answered."""
    name = b"Node:describe"
    body = struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">iB", 1, 0)
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(WAIT_S)
        connection.connect(address)
        connection.sendall(struct.pack(">I", len(body)) + body)
        return len(connection.recv(4, socket.MSG_WAITALL)) == 4


def process_status():
    lines = read("/proc/%s/status" % show("MainPID")).splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


class Units(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if os.environ.get("container") != CONTAINER:
            raise unittest.SkipTest("this is another systemd")

    def setUp(self):
        write(CONFIG, PLAIN_CONFIG)

    def tearDown(self):
        control("stop", "thriftps.socket", SERVICE)
        control("reset-failed", check=False)

    def drop_in(self, text):
        path = UNITS + "/%s.d/more.conf" % SERVICE
        write(path, "[Service]\n" + text)
        control("daemon-reload")
        self.addCleanup(control, "daemon-reload")
        self.addCleanup(os.unlink, path)

    def test_the_start_ends_when_the_server_serves(self):
        control("start", SERVICE)
        self.assertTrue(describe())
        self.assertEqual(show("StatusText"), "Serving on 127.0.0.1:9090")
        control("stop", SERVICE)
        self.assertEqual((show("Result"), show("ExecMainStatus")), ("success", "0"))

    def test_the_server_keeps_its_state_as_a_user_of_its_own(self):
        write(CONFIG, STATEFUL_CONFIG)
        for _ in range(2):
            control("start", SERVICE)
            self.assertTrue(describe())
            self.assertTrue(describe("/run/thriftps/server"))
            status = process_status()
            self.assertNotIn("0", status["Uid"].split())
            self.assertEqual((int(status["CapEff"], 16), status["NoNewPrivs"], status["Seccomp"]),
                             (0, "1", "2"))
            folder = os.stat("/var/lib/thriftps/data")
            self.assertEqual((folder.st_uid, folder.st_mode & 0o77),
                             (int(status["Uid"].split()[0]), 0))
            control("restart", SERVICE)
        self.assertIn("recovery_done", read(OUT + "/server"))

    def test_a_reload_ends_when_the_files_have_been_read(self):
        control("start", SERVICE)
        control("reload", SERVICE)
        self.assertEqual(show("ActiveState"), "active")
        self.assertTrue(describe())

    def test_the_watchdog_restarts_a_server_that_stands_still(self):
        self.drop_in("WatchdogSec=1\nTimeoutAbortSec=1\n")
        control("start", SERVICE)
        beat = show("WatchdogTimestampMonotonic")
        wait_for(lambda: show("WatchdogTimestampMonotonic") != beat)
        self.assertEqual(show("NRestarts"), "0")
        stuck = int(show("MainPID"))
        os.kill(stuck, signal.SIGSTOP)
        wait_for(lambda: show("NRestarts") == "1" and show("ActiveState") == "active")
        self.assertNotEqual(int(show("MainPID")), stuck)
        self.assertTrue(describe())

    def test_a_bad_option_stays_bad(self):
        write(CONFIG, '{"ntrainer": 0}')
        self.assertNotEqual(control("start", SERVICE, check=False).returncode, 0)
        self.assertEqual((show("ActiveState"), show("ExecMainStatus"), show("NRestarts")),
                         ("failed", "2", "0"))

    def test_a_crash_is_followed_by_a_restart(self):
        control("start", SERVICE)
        os.kill(int(show("MainPID")), signal.SIGKILL)
        wait_for(lambda: show("NRestarts") == "1" and show("ActiveState") == "active")
        self.assertTrue(describe())

    def test_a_connection_starts_the_server(self):
        control("start", "thriftps.socket")
        self.assertEqual(show("ActiveState"), "inactive")
        self.assertTrue(describe())
        self.assertEqual(show("StatusText"), "Serving on 127.0.0.1:9090")

    def test_no_connection_is_refused_during_a_restart(self):
        control("start", "thriftps.socket", SERVICE)
        restart = threading.Thread(target=control, args=("restart", SERVICE))
        restart.start()
        while restart.is_alive():
            with socket.create_connection(ADDRESS, WAIT_S):
                pass
        restart.join()
        self.assertTrue(describe())

    def test_the_score_is_that_of_the_manual(self):
        done = subprocess.run(["systemd-analyze", "security", "--no-pager", SERVICE],
                              stdout=subprocess.PIPE, encoding="utf-8", check=True)
        self.assertIn("%s: 1.5 OK" % SERVICE, done.stdout)


def use_units():
    result = unittest.main(argv=["units", "-v"], module=__name__, defaultTest="Units", exit=False)
    write(OUT + "/result", "passed" if result.result.wasSuccessful() else "failed")


# ---- the test ------------------------------------------------------------------------------------


def find_group():
    """The folder of this process's control group of version 2; None: there is none."""
    for line in read("/proc/self/mounts").splitlines():
        _, folder, kind, *_ = line.split(" ")
        if kind == "cgroup2":
            for own in read("/proc/self/cgroup").splitlines():
                if own.startswith("0::"):
                    return folder + own[len("0::"):]
    return None


class Systemd(unittest.TestCase):

    def make_group(self):
        above = find_group()
        if os.getuid() != 0 or above is None:
            self.skipTest("only root can run systemd, in a control group of version 2")
        for program in (SYSTEMD, "/usr/bin/unshare", "/usr/bin/systemd-analyze"):
            if not os.path.exists(program):
                self.skipTest(program + " is not installed")
        group = os.path.join(above, "thriftps-systemd-test-%d" % os.getpid())
        try:
            os.mkdir(group)
        except OSError as error:
            self.skipTest("no control group can be made: %s" % error)
        self.addCleanup(self.remove_group, group)
        return group

    def remove_group(self, group):
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)

    def test_the_installed_units(self):
        group = self.make_group()
        out = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, out)
        os.chmod(out, 0o755)
        subprocess.run([INSTALL, "--prefix=" + PREFIX, "--destdir=" + out + "/stage"], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.copy(os.path.abspath(__file__), out + "/systemd_test.py")
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc",
             "--net", "--mount-proc", "/usr/bin/python3", out + "/systemd_test.py", "inner", out],
            preexec_fn=lambda: write(group + "/cgroup.procs", str(os.getpid())),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace", timeout=2 * WAIT_S, check=False)
        print(done.stdout)
        for path in (out + "/driver", out + "/server"):
            print("==== %s\n%s" % (path, read(path) if os.path.exists(path) else "missing"))
        self.assertTrue(os.path.exists(out + "/result"), "systemd did not run the units")
        self.assertEqual(read(out + "/result"), "passed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["inner"]:
        become_systemd(sys.argv[2])
    elif sys.argv[1:] == ["units"]:
        use_units()
    else:
        unittest.main(defaultTest="Systemd")
