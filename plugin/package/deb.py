"""Builds Debian packages from the files of an installation.

usage: deb.py FILES.tar WHEEL INSTALL.PY DEBIAN OUT PACKAGE...

DEBIAN is the folder with control (as in a source package), changelog, copyright and scripts. WHEEL
is the Python package; libraries that it bundles are left out, because Debian has them. Writes
OUT/PACKAGE.deb. The same input gives the same bytes: all times are that of the changelog.
"""

import email.utils
import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Patterns of paths. The first match determines the package.
PLACES = (
    ("python3-thriftps", r"/dist-packages/"),
    ("thriftps-gloo", r"/thriftps/libtps_gloo\.so$"),
    ("thriftps-trainer", r"/thriftps_trainer(\.1)?$"),
    ("libthriftps0", r"\.so\.\d"),
    ("thriftps-server", r"^/usr/bin/|^/usr/share/man/|^/etc/|/systemd/"),
    ("libthriftps-dev", r""),
)


def run(*command, **options):
    return subprocess.run(
        command, stdout=subprocess.PIPE, check=True, encoding="utf-8", **options
    ).stdout


def load_module(path):
    spec = importlib.util.spec_from_file_location("installer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install_all(installer, archive, stage):
    options = installer.parse(
        [
            "--prefix=/usr",
            "--destdir=" + stage,
            "--libdir=lib/" + get_multiarch(),
            "--unitdir=/lib/systemd/system",
        ]
    )
    installer.install(options, archive)


def install_wheel(wheel, stage):
    """Unpacks the wheel, except RECORD, by which pip would remove files of the package."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = os.path.basename(member.filename)
            if name == "RECORD" or re.search(r"\.so\.\d", name):
                continue
            place = os.path.join(stage, "usr/lib/python3/dist-packages", member.filename)
            write(place, archive.read(member))


def get_multiarch():
    return run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()


def write(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(path, mode)


def compress(path):
    with open(path, "rb") as file:
        data = gzip.compress(file.read(), 9, mtime=0)
    os.unlink(path)
    write(path + ".gz", data)


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def read_stanzas(text):
    """Lists of (field, value), where a value includes its continuation lines."""
    for stanza in text.strip().split("\n\n"):
        yield re.findall(r"^(\S+?): ?(.*(?:\n .*)*)", stanza, re.MULTILINE)


class Package:
    def __init__(self, name, fields, source, folder, debian):
        self.name, self.folder, self.debian = name, folder, debian
        self.fields = dict(source, **fields)
        changelog = read(debian, "changelog")
        self.version = re.search(r"\((\S+)\)", changelog).group(1)
        date = re.search(r"^ -- .*?>  (.*)$", changelog, re.MULTILINE).group(1)
        self.epoch = int(email.utils.parsedate_to_datetime(date).timestamp())

    def path(self, name):
        return os.path.join(self.folder, name.lstrip("/"))

    def list_files(self):
        for root, folders, names in os.walk(self.folder):
            folders.sort()
            if os.path.basename(root) == "DEBIAN":
                continue
            for name in sorted(names):
                yield os.path.join(root, name)

    def add_documents(self):
        documents = self.path("usr/share/doc/" + self.name)
        write(os.path.join(documents, "copyright"), read(self.debian, "copyright"))
        write(os.path.join(documents, "changelog.Debian"), read(self.debian, "changelog"))
        compress(os.path.join(documents, "changelog.Debian"))
        for path in list(self.list_files()):
            if "/share/man/" in path:
                compress(path)

    def find_dependencies(self):
        """The result of dpkg-shlibdeps for the programs and libraries."""
        binaries = [path for path in self.list_files() if not os.path.islink(path) and is_elf(path)]
        if not binaries:
            return []
        with tempfile.TemporaryDirectory() as work:
            write(
                os.path.join(work, "debian/control"),
                "Source: thriftps\n\nPackage: %s\nArchitecture: any\n" % self.name,
            )
            said = run("dpkg-shlibdeps", "-O", "--warnings=0", *binaries, cwd=work)
        return re.search(r"shlibs:Depends=(.*)", said).group(1).split(", ")

    def add_control(self):
        fields = dict(self.fields)
        depends = fields.pop("Depends", "").replace("${Version}", self.version)
        size = sum(os.lstat(path).st_size for path in self.list_files())
        fields.update(
            {
                "Architecture": run("dpkg", "--print-architecture").strip(),
                "Depends": ", ".join(([depends] if depends else []) + self.find_dependencies()),
                "Installed-Size": str((size + 1023) // 1024),
                "Package": self.name,
                "Source": "thriftps",
                "Version": self.version,
            }
        )
        order = [
            "Package",
            "Source",
            "Version",
            "Architecture",
            "Maintainer",
            "Installed-Size",
            "Depends",
            "Recommends",
            "Suggests",
            "Section",
            "Priority",
            "Multi-Arch",
            "Description",
        ]
        write(
            self.path("DEBIAN/control"),
            "".join("%s: %s\n" % (name, fields[name]) for name in order if fields.get(name)),
        )

    def add_metadata(self):
        sums = "".join(
            "%s  %s\n"
            % (hashlib.md5(read_bytes(path)).hexdigest(), os.path.relpath(path, self.folder))
            for path in self.list_files()
            if not os.path.islink(path)
        )
        write(self.path("DEBIAN/md5sums"), sums)
        settings = [
            "/%s\n" % os.path.relpath(path, self.folder)
            for path in self.list_files()
            if path.startswith(self.path("etc/"))
        ]
        if settings:
            write(self.path("DEBIAN/conffiles"), "".join(settings))

    def add_scripts(self):
        write(
            self.path("usr/share/lintian/overrides/" + self.name),
            read(self.debian, "lintian-overrides"),
        )
        for script in ("postinst", "prerm", "triggers", "shlibs"):
            source = os.path.join(self.debian, self.name + "." + script)
            if os.path.exists(source):
                text = read_bytes(source)
                mode = 0o755 if text.startswith(b"#!") else 0o644
                write(self.path("DEBIAN/" + script), text, mode)

    def build(self, out):
        self.add_documents()
        self.add_scripts()
        self.add_control()
        self.add_metadata()
        for root, folders, names in os.walk(self.folder, topdown=False):
            for each in [os.path.join(root, name) for name in names + folders] + [root]:
                if os.path.isdir(each) and not os.path.islink(each):
                    os.chmod(each, 0o755)
                os.utime(each, (self.epoch, self.epoch), follow_symlinks=False)
        run(
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            "--threads-max=1",
            "--build",
            self.folder,
            os.path.join(out, self.name + ".deb"),
            env=dict(os.environ, SOURCE_DATE_EPOCH=str(self.epoch)),
        )


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def is_elf(path):
    return read_bytes(path)[:4] == b"\x7fELF"


def move_files(stage, packages):
    for root, _, names in os.walk(stage):
        for name in names:
            path = os.path.join(root, name)
            place = "/" + os.path.relpath(path, stage)
            package = next(each for each, pattern in PLACES if re.search(pattern, place))
            target = packages[package].path(place)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.move(path, target)


def main(arguments):
    archive, wheel, installer, debian, out, *names = arguments
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    os.umask(0o022)
    source, *stanzas = [dict(stanza) for stanza in read_stanzas(read(debian, "control"))]
    with tempfile.TemporaryDirectory() as work:
        packages = {}
        for fields in stanzas:
            name = fields["Package"]
            packages[name] = Package(name, fields, source, os.path.join(work, name), debian)
        if sorted(packages) != sorted(names):
            sys.exit("deb.py: control describes %s" % ", ".join(sorted(packages)))
        stage = os.path.join(work, "stage")
        install_all(load_module(installer), archive, stage)
        install_wheel(wheel, stage)
        move_files(stage, packages)
        for package in packages.values():
            package.build(os.path.abspath(out))


if __name__ == "__main__":
    main(sys.argv[1:])
