#!/bin/sh
# Runs the program of the same name of the Debian packages, with their libraries. sysroot.bzl puts a
# copy of this script into bin/ for each program.
#
# The script finds the packages relative to its own path, so that no command line and no output
# contains their path, which is different on each machine. The packages are not inputs of Bazel's
# actions, because thousands of inputs take longer than most compilations. The hash of their lock
# stands for them:
# lock: %{lock}

here=$(readlink -f "$0") || exit
here=${here%/bin/*}
name=${0##*/}
LD_LIBRARY_PATH=$here/lib
export LD_LIBRARY_PATH

case $name in
  gcc) ;;
  *) exec "$here/debian/usr/bin/$name" "$@" ;;
esac

unset CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_EXEC_PREFIX
"$here/debian/usr/bin/gcc-12" "--sysroot=$here/debian" "-B$here/debian/usr/bin" \
  "-ffile-prefix-map=$here/debian=" "$@" || exit

# A dependency file names headers of this tree only: those of the packages are part of the
# toolchain, like /usr/include elsewhere.
previous=
for argument; do
  if [ "$previous" = -MF ]; then sed -i "s|$here/debian/[^ ]*||g" "$argument" || exit; fi
  previous=$argument
done
