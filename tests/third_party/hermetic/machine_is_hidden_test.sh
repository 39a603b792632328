#!/bin/bash
# With --config=hermetic, neither the compiler nor a program may see packages of the machine.
set -euo pipefail

gcc=external/thriftps_sysroot/bin/gcc
packages=$(readlink -f "$gcc")
packages=${packages%/bin/gcc}

fail () {
  echo "$*"
  exit 1
}

# has_header HEADER: succeeds if the compiler finds the header. The tool must ignore these folders.
has_header () {
  echo "#include $1" | CPATH=$TEST_TMPDIR C_INCLUDE_PATH=$TEST_TMPDIR "$gcc" -E -x c - > /dev/null 2>&1
}

# The compiler must work and see only the packages.
has_header '<stdio.h>' || fail 'the compiler does not find <stdio.h> of the packages'
touch "$TEST_TMPDIR/of_the_machine.h"
if has_header '<of_the_machine.h>'; then fail 'the compiler obeys CPATH'; fi
if has_header '"/usr/include/stdio.h"'; then
  fail 'the sandbox shows /usr/include: is linux-sandbox available on this machine?'
fi

# All folders of headers and libraries, and all programs, must be those of the packages.
folders=$("$gcc" -E -v -x c++ /dev/null 2>&1 | sed -n '/^#include </,/^End of/s/^ //p')
[ -n "$folders" ] || fail 'the compiler names no folders of headers'
for folder in $folders; do
  case $folder in "$packages"/debian/*) ;; *) fail "headers are searched for in $folder" ;; esac
done
for library in libc.so libglib-2.0.so libstdc++.so crt1.o; do
  case $("$gcc" -print-file-name="$library") in
    "$packages"/debian/*) ;;
    *) fail "$library is $("$gcc" -print-file-name="$library")" ;;
  esac
done
for program in as ld ld.gold cc1; do
  case $("$gcc" -print-prog-name="$program") in
    "$packages"/debian/*) ;;
    *) fail "$program is $("$gcc" -print-prog-name="$program")" ;;
  esac
done

# A program must have the libraries of the packages, except for the C library.
libraries=$(tests/third_party/hermetic/print_libraries)
grep -q '/libglib-2\.0\.so\.0$' <<< "$libraries" || fail "no GLib in: $libraries"
for library in $libraries; do
  case ${library##*/} in
    linux-vdso.so.1 | ld-linux-x86-64.so.2 | libc.so.6 | libm.so.6 | libpthread.so.0) continue ;;
  esac
  case $(readlink -f "$library") in
    "$packages"/debian/*) ;;
    *) fail "a program has $library of the machine" ;;
  esac
done
