"""third_party/lock.sh, and the lock that it wrote."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest

THIRD_PARTY = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "third_party")

# lock.sh can use only these programs, and those that a test adds.
TOOLS = ("awk", "basename", "cat", "cut", "diff", "dirname", "find", "grep", "head", "id", "ln",
         "mkdir", "mktemp", "mv", "paste", "rm", "sed", "sha256sum", "sort", "wc")

# Both programs log their arguments. Files beside them have their output.
APT_GET = """\
#!/bin/sh
here=$(dirname "$0")
echo "apt-get $*" >> "$here/log"
while [ "$1" != update ] && [ "$1" != download ]; do shift; done
if [ "$1" = update ]; then exit 0; fi
shift
for wanted; do cp "$here/${wanted%%=*}.package" "${wanted%%=*}_1_amd64.deb" || exit 100; done
"""
APT_CACHE = """\
#!/bin/sh
here=$(dirname "$0")
while [ "$1" != madison ] && [ "$1" != dumpavail ]; do shift; done
cat "$here/$1"
"""

AVAILABLE = """\
Package: app
Version: 1:2-3
Depends: libone (>= 1), virtual | other, unwanted
SHA256: {a}

Package: libone
Version: 1
Pre-Depends: libtwo:any
SHA256: {b}

Package: libtwo
Version: 2
Depends: app
SHA256: {c}

Package: real
Provides: virtual (= 7)
Version: 7
SHA256: {d}

Package: unwanted
Version: 1
Depends: missing
SHA256: {d}
""".format(a="a" * 64, b="b" * 64, c="c" * 64, d="d" * 64)


def read_lines(name):
    with open(os.path.join(THIRD_PARTY, "hermetic", name), encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


class Lock(unittest.TestCase):
    def test_has_name_version_and_sha256_of_each_package_once_sorted(self):
        entries = read_lines("packages.lock")
        self.assertGreater(len(entries), 50)
        for entry in entries:
            self.assertRegex(entry, r"^[a-z0-9][a-z0-9.+-]+ [0-9][A-Za-z0-9.+:~-]* [0-9a-f]{64}$")
        names = [entry.split()[0] for entry in entries]
        self.assertEqual(names, sorted(set(names)))
        sums = [entry.split()[2] for entry in entries]
        self.assertEqual(len(sums), len(set(sums)))

    def test_has_the_packages_of_the_list(self):
        names = {entry.split()[0] for entry in read_lines("packages.lock")}
        listed = read_lines("packages.txt")
        self.assertEqual({name for name in listed if name[0] != "-"} - names, set())
        self.assertEqual({name[1:] for name in listed if name[0] == "-"} & names, set())


class LockScript(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.bin = os.path.join(self.folder, "bin")
        os.makedirs(self.bin)
        os.makedirs(os.path.join(self.folder, "hermetic"))
        for name in ("lock.sh", "hermetic/closure.awk"):
            shutil.copy(os.path.join(THIRD_PARTY, name), os.path.join(self.folder, name))
        for tool in TOOLS + ("cp", "sh"):
            os.symlink(shutil.which(tool, path="/usr/bin:/bin"), os.path.join(self.bin, tool))
        self.write("bin/apt-get", APT_GET, 0o755)
        self.write("bin/apt-cache", APT_CACHE, 0o755)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def lock_packages(self, **versions):
        """Writes a lock, and packages with these names for apt-get."""
        lines = ["# a comment"]
        for name, version in versions.items():
            self.write("bin/%s.package" % name, "contents of " + name)
            digest = hashlib.sha256(("contents of " + name).encode()).hexdigest()
            lines.append("%s %s %s" % (name, version, digest))
        self.write("hermetic/packages.lock", "\n".join(lines) + "\n")

    def run_script(self, *arguments, succeeds=True):
        """Returns the script's stderr."""
        done = subprocess.run(
            [self.path("lock.sh"), *arguments],
            env={"PATH": self.bin, "XDG_CACHE_HOME": self.path("cache")},
            stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode == 0, succeeds, done.stderr)
        return done.stderr

    def test_fetches_each_package_and_says_so(self):
        self.lock_packages(libone="1", libtwo="1:2-3+b1")
        self.write("bin/madison", "libone | 1 | mirror\n libtwo | 1:2-3+b1 | mirror\n")
        said = self.run_script("--fetch", self.path("debs"))
        self.assertIn("downloading 2 Debian packages: libone libtwo\n", said)
        self.assertEqual(self.read("debs/libone.deb"), "contents of libone")
        self.assertEqual(self.read("debs/libtwo.deb"), "contents of libtwo")
        self.assertIn("download libone=1 libtwo=1:2-3+b1\n", self.read("bin/log"))

    def test_fetches_only_what_it_does_not_have(self):
        self.lock_packages(libone="1")
        self.write("bin/madison", "libone | 1 | mirror\nlibtwo | 2 | mirror\n")
        self.run_script("--fetch", self.path("debs"))
        self.lock_packages(libone="1", libtwo="2")
        self.assertIn("downloading 1 Debian packages: libtwo\n",
                      self.run_script("--fetch", self.path("debs")))
        os.unlink(self.path("bin/apt-get"))
        self.assertEqual(self.run_script("--fetch", self.path("debs")), "")

    def test_names_vanished_packages_and_the_command_that_updates_the_lock(self):
        self.lock_packages(libone="1", libtwo="2-1", libthree="3")
        self.write("bin/madison", "libone | 1 | mirror\nlibtwo | 2-2 | mirror\n")
        said = self.run_script("--fetch", self.path("debs"), succeeds=False)
        self.assertIn("\n  libtwo 2-1 (apt has: 2-2)\n", said)
        self.assertIn("\n  libthree 3 (apt has: none)\n", said)
        self.assertNotIn("libone 1", said)
        self.assertIn("third_party/lock.sh --update", said)

    def test_refuses_a_package_with_another_hash(self):
        self.lock_packages(libone="1")
        self.write("bin/madison", "libone | 1 | mirror\n")
        self.write("bin/libone.package", "contents of somebody else")
        said = self.run_script("--fetch", self.path("debs"), succeeds=False)
        self.assertIn("libone 1: the package that apt got has another SHA-256", said)

    def test_names_a_missing_apt(self):
        self.lock_packages(libone="1")
        for program in ("apt-cache", "apt-get"):
            os.unlink(self.path("bin/" + program))
            for arguments in (("--fetch", self.path("debs")), ("--update",)):
                said = self.run_script(*arguments, succeeds=False)
                self.assertRegex(said, program + " is missing: install Debian's apt")

    def test_locks_dependencies(self):
        self.write("bin/dumpavail", AVAILABLE)
        self.write("hermetic/packages.txt", "# a comment\n\napp\n-unwanted\n")
        self.run_script("--update")
        entries = [line for line in self.read("hermetic/packages.lock").splitlines()
                   if not line.startswith("#")]
        self.assertEqual(entries, ["app 1:2-3 " + "a" * 64, "libone 1 " + "b" * 64,
                                   "libtwo 2 " + "c" * 64, "real 7 " + "d" * 64])

    def test_an_unknown_package_leaves_the_lock_unchanged(self):
        self.write("bin/dumpavail", AVAILABLE)
        self.write("hermetic/packages.txt", "app\n")
        self.write("hermetic/packages.lock", "as before\n")
        said = self.run_script("--update", succeeds=False)
        self.assertIn("apt has no package missing, which unwanted needs", said)
        self.assertEqual(self.read("hermetic/packages.lock"), "as before\n")

    def test_explains_itself(self):
        said = self.run_script(succeeds=False)
        self.assertTrue(re.search(r"--update +writes", said) and "--fetch FOLDER" in said, said)


if __name__ == "__main__":
    unittest.main()
