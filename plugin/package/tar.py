"""Packs the files of an installation reproducibly: the same input gives the same bytes.

usage: tar.py TAR (PLACE FILE)...

PLACE begins with the name of a folder that the installer chooses: BINDIR/..., LIBDIR/...
(get_folders() of install.py). A * before it makes the file executable. A / at its end makes it a
folder, for the file or for all files in the folder FILE. An @ at its end makes it a symbolic link
to FILE.
"""

import io
import os
import sys
import tarfile


def list_files(place, file):
    """Yields (place, file) of each file."""
    if not place.endswith("/"):
        yield place, file
    elif not os.path.isdir(file):
        yield place + os.path.basename(file), file
    else:
        for root, _, names in os.walk(file, followlinks=True):
            for name in names:
                path = os.path.join(root, name)
                yield place + os.path.relpath(path, file), path


def to_member(place, file):
    is_program, place = place.startswith("*"), place.lstrip("*")
    member = tarfile.TarInfo(place.rstrip("@"))
    if place.endswith("@"):
        member.type, member.linkname = tarfile.SYMTYPE, file
        return member, b""
    with open(file, "rb") as opened:
        data = opened.read()
    member.size = len(data)
    member.mode = 0o755 if is_program else 0o644
    return member, data


def main(arguments):
    pairs = [
        each
        for place, file in zip(arguments[1::2], arguments[2::2])
        for each in list_files(place, file)
    ]
    members = [to_member(place, file) for place, file in pairs]
    with tarfile.open(arguments[0], "w", format=tarfile.USTAR_FORMAT) as tar:
        for member, data in sorted(members, key=lambda pair: pair[0].name):
            tar.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    main(sys.argv[1:])
