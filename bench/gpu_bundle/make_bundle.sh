#!/bin/bash
# Packs a folder that runs on another Linux machine with a driver and the CUDA libraries, and
# nothing of ours.
#
#   make_bundle.sh FOLDER LIBRARY SCRIPT DATA PROGRAM...
#
# PROGRAMs that end in .py are scripts; those of bench/peers go where programs look for them.
# Programs are stripped. The shared libraries that they need or load, but the C library's, go into
# lib.tar.gz (OpenBLAS alone has 35 MiB, most of it code for other processors; the libraries of
# HTTP 6 MiB). At most 48 MiB.
set -euo pipefail

folder=$1 library=$2 script=$3 data=$4
shift 4
programs=()
LIMIT_KIB=$((48 * 1024))

mkdir -p "$folder/bin" "$folder/lib"
install -m 755 "$script" "$folder/run_all.sh"
install -m 755 "$library" "$folder/libtps_cuda.so"
for program in "$@"; do
  case $program in
    bench/peers/*) install -D -m 755 "$program" "$folder/bin/$program" ;;
    *.py) install -m 755 "$program" "$folder/bin/" ;;
    *)
      install -m 755 "$program" "$folder/bin/"
      strip "$folder/bin/$(basename "$program")"
      programs+=("$folder/bin/$(basename "$program")")
      ;;
  esac
done
strip "$folder/libtps_cuda.so"
# Tests read it relative to where they run.
install -D -m 644 "$data" "$folder/$data"

# Programs load OpenBLAS when they first need it, so ldd does not tell (runtime/base/module.h).
openblas=$(/sbin/ldconfig -p | sed -n 's/^[[:space:]]*libopenblas\.so\.0 .*=> //p' | head -n 1)

# The C library and its loader are the other machine's.
{
  echo "$openblas"
  ldd "${programs[@]}" "$folder/libtps_cuda.so" "$openblas" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
} | sort -u |
  grep -v -E '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r needed; do install -m 644 "$needed" "$folder/lib/"; done
strip "$folder/lib/"*
tar -C "$folder" -czf "$folder/lib.tar.gz" lib
rm -r "$folder/lib"

size=$(du -sk "$folder" | cut -f1)
if [ "$size" -gt "$LIMIT_KIB" ]; then
  echo "gpu_bundle: $size KiB, more than $LIMIT_KIB" >&2
  du -ak "$folder" | sort -rn | head >&2
  exit 1
fi
