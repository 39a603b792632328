#!/bin/bash
# Packs a folder that runs on another Linux machine, which has a driver and the CUDA libraries but
# no files of this project.
#
#   make_bundle.sh FOLDER LIBRARY SCRIPT DATA PROGRAM...
#
# PROGRAMs that end in .py are scripts. Scripts of bench/peers are stored where programs expect
# them. Other programs are stripped. All are packed into files.tar.gz, next to the SCRIPT, together
# with LIBRARY, DATA, and the shared libraries that the programs need or load, except for the C
# library. (OpenBLAS alone has 35 MiB, mostly code for other processors.) The folder must not exceed
# 40 MiB.
set -euo pipefail

folder=$1 library=$2 script=$3 data=$4
shift 4
programs=()
LIMIT_KIB=$((40 * 1024))

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
# Tests read the data relative to their working directory.
install -D -m 644 "$data" "$folder/$data"

# Programs load OpenBLAS at its first use, so ldd does not list it (runtime/base/module.h).
openblas=$(/sbin/ldconfig -p | sed -n 's/^[[:space:]]*libopenblas\.so\.0 .*=> //p' | head -n 1)

# The C library and its loader must be those of the other machine.
{
  echo "$openblas"
  ldd "${programs[@]}" "$folder/libtps_cuda.so" "$openblas" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
} | sort -u |
  grep -v -E '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r needed; do install -m 644 "$needed" "$folder/lib/"; done
strip "$folder/lib/"*
files=(bin lib libtps_cuda.so "${data%%/*}")
tar -C "$folder" -czf "$folder/files.tar.gz" "${files[@]}"
rm -r "${files[@]/#/"$folder/"}"

size=$(du -sk "$folder" | cut -f1)
if [ "$size" -gt "$LIMIT_KIB" ]; then
  echo "gpu_bundle: $size KiB, more than $LIMIT_KIB" >&2
  du -ak "$folder" | sort -rn | head >&2
  exit 1
fi
