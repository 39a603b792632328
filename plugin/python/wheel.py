"""Packs a wheel reproducibly: the same input gives the same bytes.

usage: wheel.py WHEEL README (PLACE FILE)...

WHEEL is NAME-VERSION-py3-none-manylinux_X_Y_MACHINE.whl. PLACE is a path in the wheel. If it ends
with /, it is a folder, for the file or for all .py files in the folder FILE. If two files have the
same place, the first one is used. `thriftps/_version.py` is generated here.

A shared library may need the libraries that manylinux allows, of a C library not newer than X.Y;
OpenSSL 3, which all systems with that C library have; and libraries in its own folder. A library in
BUNDLED is copied from this machine, with its licence.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

# The libraries that the wheel needs and that PEP 599 and PEP 600 allow.
ALLOWED = {
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libglib-2.0.so.0",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
}
# Not bundled, because its security updates come from the system.
OPENSSL = {"libcrypto.so.3", "libssl.so.3"}
BUNDLED = {"libisal.so.2": "/usr/share/doc/libisal2/copyright"}

NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip file

METADATA = """\
Metadata-Version: 2.1
Name: thriftps
Version: %s
Summary: Parameter server and embedding tables over Apache Thrift: clients for Python and PyTorch
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: generated
Requires-Dist: thrift (>=0.16); extra == "generated"
Description-Content-Type: text/markdown

%s"""

WHEEL = """\
Wheel-Version: 1.0
Generator: thriftps
Root-Is-Purelib: false
Tag: %s
"""


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def list_files(place, file):
    """Yields (place, path) of each file."""
    if not place.endswith("/"):
        yield place, file
    elif not os.path.isdir(file):
        yield place + os.path.basename(file), file
    else:
        for root, _, names in os.walk(file, followlinks=True):
            for name in names:
                path = os.path.join(root, name)
                if name.endswith(".py"):
                    yield os.path.normpath(place + os.path.relpath(path, file)), path


def find_library(name):
    for line in run("/sbin/ldconfig", "-p").splitlines():
        words = line.split()
        if words and words[0] == name and "x32" not in line:
            return words[-1]
    sys.exit("wheel: %s is not installed" % name)


def check_glibc(path, newest):
    versions = [
        (int(major), int(minor)) for major, minor in GLIBC.findall(run("readelf", "-V", path))
    ]
    if versions and max(versions) > newest:
        sys.exit(
            "wheel: %s needs GLIBC_%d.%d, which is newer than the %d.%d of the wheel's tag"
            % ((path,) + max(versions) + newest)
        )


def bundle(files, newest):
    """Adds the libraries that shared libraries need. `files`: path by place."""
    for place, path in list(files.items()):
        if not place.endswith(".so"):
            continue
        check_glibc(path, newest)
        for name in NEEDED.findall(run("readelf", "-d", path)):
            if name in BUNDLED:
                library = find_library(name)
                check_glibc(library, newest)
                files["%s/%s" % (os.path.dirname(place), name)] = library
                files["%s/%s.copyright" % (os.path.dirname(place), name)] = BUNDLED[name]
            elif name not in ALLOWED | OPENSSL:
                sys.exit("wheel: %s needs %s, which manylinux does not allow" % (path, name))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def to_record(place, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d\n" % (place, digest, len(data))


def main(arguments):
    wheel, readme = arguments[:2]
    name, version, tag = os.path.basename(wheel)[: -len(".whl")].split("-", 2)
    newest = tuple(int(each) for each in re.search(r"manylinux_(\d+)_(\d+)", tag).groups())
    files = {}
    for place, file in zip(arguments[2::2], arguments[3::2]):
        for each, path in list_files(place, file):
            files.setdefault(each, path)
    bundle(files, newest)
    files.pop("__init__.py", None)  # of the folder of the generated packages
    contents = {place: read(path) for place, path in files.items()}
    contents[name + "/_version.py"] = b'__version__ = "%s"\n' % version.encode()
    info = "%s-%s.dist-info/" % (name, version)
    contents[info + "METADATA"] = (METADATA % (version, read(readme).decode())).encode()
    contents[info + "WHEEL"] = (WHEEL % tag).encode()
    places = sorted(contents, key=lambda place: (place.startswith(info), place))
    records = "".join(to_record(place, contents[place]) for place in places)
    contents[info + "RECORD"] = (records + info + "RECORD,,\n").encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for place in places + [info + "RECORD"]:
            member = zipfile.ZipInfo(place, EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (
                0o755 if ".so" in place and "copyright" not in place else 0o644
            ) << 16
            archive.writestr(member, contents[place])


if __name__ == "__main__":
    main(sys.argv[1:])
