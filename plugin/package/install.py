"""Installs ThriftPS below a prefix, and removes it again.

    ./bazelw run //plugin/package:install -- --prefix=/usr/local
    ./bazelw run //plugin/package:install -- --prefix=/usr --destdir=/tmp/stage
    ./bazelw run //plugin/package:install -- --prefix=/usr/local --uninstall

PREFIX/share/thriftps/installed_files lists all installed files. --uninstall removes them, and the
folders that are then empty. An existing configuration file is neither replaced nor removed.
"""

import argparse
import os
import sys
import tarfile

MANIFEST = "share/thriftps/installed_files"
CONFIG = "CONFDIR/server.json"


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="install", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--prefix", default="/usr/local", help="where programs look for the files (%(default)s)"
    )
    parser.add_argument(
        "--destdir", default="", help="put the files below this folder instead, for a package"
    )
    parser.add_argument(
        "--libdir", default="lib", help="libraries, below the prefix or absolute (%(default)s)"
    )
    parser.add_argument(
        "--sysconfdir", default=None, help="configuration (PREFIX/etc; /etc for the prefix /usr)"
    )
    parser.add_argument(
        "--unitdir", default="lib/systemd/system", help="systemd units (%(default)s)"
    )
    parser.add_argument("--uninstall", action="store_true", help="remove the installed files")
    options = parser.parse_args(arguments)
    if not os.path.isabs(options.prefix):
        # Bazel starts this program in another folder, so a relative prefix refers to the caller's
        # folder.
        options.prefix = os.path.join(
            os.environ.get("BUILD_WORKING_DIRECTORY", os.getcwd()), options.prefix
        )
    options.prefix = os.path.normpath(options.prefix)
    if options.destdir and not os.path.isabs(options.destdir):
        options.destdir = os.path.join(
            os.environ.get("BUILD_WORKING_DIRECTORY", os.getcwd()), options.destdir
        )
    if options.sysconfdir is None:
        options.sysconfdir = "/etc" if options.prefix == "/usr" else "etc"
    return options


def get_folders(options):
    """The folders by their names in the archive; absolute, without destdir."""

    def below(folder):
        return os.path.normpath(os.path.join(options.prefix, folder))

    return {
        "PREFIX": options.prefix,
        "BINDIR": below("bin"),
        "LIBDIR": below(options.libdir),
        "MODULEDIR": below(
            "lib/thriftps"
        ),  # the place where programs and libraries look, see runtime/base/module.h
        "INCLUDEDIR": below("include"),
        "DATADIR": below("share"),
        "CONFDIR": os.path.join(below(options.sysconfdir), "thriftps"),
        "UNITDIR": below(options.unitdir),
    }


def to_path(name, folders):
    folder, _, rest = name.partition("/")
    return os.path.join(folders[folder], rest)


def fill_in(data, folders):
    """Replaces @LIBDIR@ and so on, in the files whose names end with .in."""
    for name, folder in folders.items():
        data = data.replace(b"@%s@" % name.encode(), folder.encode())
    return data


def write(path, member, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)  # unlinked first, so that running programs keep the old library
    if member.issym():
        os.symlink(member.linkname, path)
        return
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, member.mode)


def install(options, archive):
    """Returns the paths of the files, without destdir."""
    folders = get_folders(options)
    paths = []
    with tarfile.open(archive) as tar:
        for member in tar:
            data = b"" if member.issym() else tar.extractfile(member).read()
            name = member.name
            if name.endswith(".in"):
                name, data = name[: -len(".in")], fill_in(data, folders)
            path = to_path(name, folders)
            if name == CONFIG and os.path.lexists(options.destdir + path):
                print("kept: " + path)
                continue
            write(options.destdir + path, member, data)
            if name != CONFIG:
                paths.append(path)
    return paths


def write_manifest(options, paths):
    path = os.path.join(options.prefix, MANIFEST)
    with open(options.destdir + path, "w", encoding="utf-8") as file:
        file.write("".join(each + "\n" for each in paths + [path]))


def uninstall(options):
    manifest = options.destdir + os.path.join(options.prefix, MANIFEST)
    try:
        with open(manifest, encoding="utf-8") as file:
            paths = [options.destdir + line for line in file.read().splitlines()]
    except OSError as error:
        sys.exit("install: nothing to remove: %s" % error)
    for path in paths:
        if os.path.lexists(path):
            os.unlink(path)
    for folder in sorted({os.path.dirname(path) for path in paths}, reverse=True):
        remove_empty(folder, options.destdir + options.prefix)


def remove_empty(folder, top):
    """Removes the folder and those above it, below `top`, while they are empty."""
    while folder.startswith(top + "/") and os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)
        folder = os.path.dirname(folder)


def main(arguments):
    options = parse(arguments)
    archive = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files.tar")
    try:
        if options.uninstall:
            uninstall(options)
            return
        paths = install(options, archive)
        write_manifest(options, paths)
    except PermissionError as error:
        sys.exit("install: %s" % error)
    print("%d files below %s" % (len(paths) + 1, options.destdir + options.prefix))
    if not options.destdir and os.geteuid() == 0:
        os.system("/sbin/ldconfig 2>/dev/null")


if __name__ == "__main__":
    main(sys.argv[1:])
