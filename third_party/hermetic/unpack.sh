#!/bin/sh
# Unpacks Debian packages for sysroot.bzl, without installing them.
#
# usage: unpack.sh PACKAGES SYSROOT
#
# PACKAGES is a folder with NAME.deb. In SYSROOT, the script creates debian/, which has the files of
# the packages, and lib/, which has links to all shared libraries except for those of the C library.
# A program takes the latter from the machine, because they must have the version of its dynamic
# loader.

set -eu

packages=$1 sysroot=$2
root=$sysroot/debian
# Documents, and data of programs that are not used, are omitted.
unused='./usr/share/doc ./usr/share/info ./usr/share/lintian ./usr/share/locale ./usr/share/man'
# Other folders of the packages have no libraries for this build.
folders='lib/x86_64-linux-gnu usr/lib usr/lib/x86_64-linux-gnu
  usr/lib/x86_64-linux-gnu/openblas-pthread'

mkdir -p "$root" "$sysroot/lib"
exclude=
for folder in $unused; do exclude="$exclude --exclude=$folder"; done
for package in "$packages"/*.deb; do
  # shellcheck disable=SC2086 # the options are split on purpose
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --no-same-owner $exclude
done

# A link to / refers to the machine's root, but must refer to the packages' root.
find "$root" -lname '/*' | while read -r link; do
  ln -s -f -n -r "$root$(readlink "$link")" "$link"
done

for folder in $folders; do
  for library in "$root/$folder"/lib*.so.*; do
    ln -s -f "../debian/$folder/${library##*/}" "$sysroot/lib/"
  done
done
dpkg-deb --fsys-tarfile "$packages/libc6.deb" | tar -t | sed -n 's|.*/\(.*\.so.*\)|\1|p' |
  while read -r library; do rm -f "$sysroot/lib/$library"; done
