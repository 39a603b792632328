"""The statements of the Containerfile must hold for the installed server. deb_test runs its
steps."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import containerfile

ROOT = os.getcwd()
PATH = os.path.join(ROOT, "plugin/package/container/Containerfile")
SERVER = os.path.join(ROOT, "plugin/app/thriftps_server")
PACKAGES = {"thriftps-server.deb"}


class Container(unittest.TestCase):
    def setUp(self):
        self.steps = containerfile.read(PATH)

    def test_it_begins_with_the_debian_of_the_packages_and_copies_packages_alone(self):
        self.assertEqual(containerfile.get(self.steps, "FROM"), "docker.io/library/debian:12-slim")
        *sources, target = containerfile.get(self.steps, "COPY").split()
        self.assertEqual(set(sources), PACKAGES)
        self.assertTrue(target.endswith("/"))

    def test_it_does_not_run_as_root_and_writes_to_one_folder(self):
        user = containerfile.get(self.steps, "USER")
        self.assertRegex(user, r"^[1-9]\d*:[1-9]\d*$")
        script = containerfile.to_script(self.steps)
        volume = containerfile.get(self.steps, "VOLUME")
        self.assertIn("-o %s -g %s %s" % (*user.split(":"), volume), script)
        names = [name for name, _ in self.steps]
        last_run = max(i for i, name in enumerate(names) if name == "RUN")
        self.assertLess(last_run, names.index("USER"))

    def test_its_steps_are_a_script(self):
        script = containerfile.to_script(self.steps)
        subprocess.run(["/bin/sh", "-n"], input=script, encoding="utf-8", check=True)

    def test_what_is_no_instruction_is_refused(self):
        for text in ("RUN x\n", "FROM a\nrun b\n", "FROM a\nRUN\n", ""):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                with self.assertRaises(ValueError):
                    containerfile.read(file.name)

    def test_its_command_is_one_that_the_server_takes(self):
        entry = containerfile.get_command(self.steps, "ENTRYPOINT")
        self.assertEqual(entry, ["/usr/bin/thriftps_server"])
        command = containerfile.get_command(self.steps, "CMD")
        self.assertEqual(command, ["--config=/etc/thriftps/server.json"])

    def run_health_check(self, port):
        environment = dict(os.environ, **containerfile.get_environment(self.steps))
        before = environment["THRIFTPS_HEALTH"]
        environment["THRIFTPS_HEALTH"] = re.sub(r"/\d+$", "/%d" % port, before)
        self.assertNotEqual(environment["THRIFTPS_HEALTH"], before)
        return subprocess.run(
            containerfile.get_command(self.steps, "HEALTHCHECK"),
            env=environment,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        ).returncode

    def test_its_health_check_tells_a_server_that_serves_from_one_that_does_not(self):
        server = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", "--log-level=error"],
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        try:
            port = int(server.stdout.readline().rpartition(":")[2])
            self.assertEqual(self.run_health_check(port), 0)
        finally:
            server.terminate()
            server.communicate()
        with socket.socket() as unused:  # a port without a listener
            unused.bind(("127.0.0.1", 0))
            self.assertNotEqual(self.run_health_check(unused.getsockname()[1]), 0)

    def test_its_port_is_that_of_the_installed_configuration(self):
        with open(os.path.join(ROOT, "plugin/package/server.json"), encoding="utf-8") as file:
            text = file.read()
        port = containerfile.get(self.steps, "EXPOSE")
        self.assertIn(":%s\"" % port, text)
        health = containerfile.get_environment(self.steps)["THRIFTPS_HEALTH"]
        self.assertTrue(health.endswith("/" + port))


if __name__ == "__main__":
    unittest.main()
