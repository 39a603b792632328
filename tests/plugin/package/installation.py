"""An installation below a temporary prefix, for tests that use it like a user."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.getcwd()
HERE = os.path.join(ROOT, "tests/plugin/package")
INSTALL = os.path.join(ROOT, "plugin/package/install")
STRICT = ["-Wall", "-Wextra", "-Wcast-qual", "-Wshadow", "-Wundef", "-Werror"]


def run(*command, **options):
    """Returns the output of the command; an error shows it."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        **options
    )
    if done.returncode != 0:
        raise AssertionError(
            "%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stdout)
        )
    return done.stdout


class Installation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.prefix = os.path.join(cls.folder, "usr")
        run(INSTALL, "--prefix=" + cls.prefix)
        cls.environment = dict(
            os.environ,
            PKG_CONFIG_PATH=cls.path("lib/pkgconfig"),
            LD_LIBRARY_PATH=cls.path("lib"),
            PATH="/usr/sbin:/usr/bin:/sbin:/bin",
        )

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.prefix, name)

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.folder)

    def pkg_config(self, *arguments):
        return run("pkg-config", *arguments, "thriftps", env=self.environment).split()

    def need(self, *programs):
        for program in programs:
            if shutil.which(program, path=self.environment["PATH"]) is None:
                self.skipTest("%s is not installed" % program)
