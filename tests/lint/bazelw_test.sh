#!/bin/bash
# ./bazelw must require only the packages that its arguments need.
set -euo pipefail

root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
# Simulates a system without any installed package.
printf '#!/bin/sh\nexit 1\n' > "$empty/dpkg-query"
chmod +x "$empty/dpkg-query"

missing () {
  PATH=$empty:$PATH BAZELW_NO_INSTALL=1 "$root/bazelw" "$@" 2>&1 | sed -n 's/^bazelw: these .* are missing: / /p'
}

# expect YES|NO PACKAGE ARGUMENT...
expect () {
  local wanted=$1 package=$2 found=NO
  shift 2
  case "$(missing "$@") " in *" $package "*) found=YES ;; esac
  if [ "$found" != "$wanted" ]; then
    echo "./bazelw $*: is $package needed? expected $wanted, found $found"
    exit 1
  fi
}

for package in bazel-bootstrap g++ libgloo-dev thrift-compiler; do
  expect YES "$package" run //bench:parameter_server
done
expect NO libsoup-3.0-dev run //bench:parameter_server
for target in //bench:dlrm //bench/dlrm //plugin/package:deb //bench:parameter_server\ //plugin/...; do
  # shellcheck disable=SC2086 # words
  expect YES libsoup-3.0-dev build $target
done
expect YES libsoup-3.0-dev run //plugin:thriftps_server -- --listen=127.0.0.1:7070
for package in python3-torch clang googletest libthrift-dev lintian gnuplot-nox; do
  expect NO "$package" run //bench:parameter_server
  expect NO "$package" run //plugin:thriftps_server -- --listen=127.0.0.1:7070
done
for command in 'test //...' 'build //...' 'test //tests/plugin/net:spin_test'; do
  # shellcheck disable=SC2086 # words
  for package in python3-torch clang googletest libthrift-dev bazel-bootstrap; do
    expect YES "$package" $command
  done
done
expect YES python3-torch run //bench:parameter_server -- --peer=pytorch
expect YES libthrift-dev run //bench:transfer
expect YES clang run --config=fuzz //tests/fuzz:frame_fuzz
for package in g++ libgloo-dev libsoup-3.0-dev pkg-config thrift-compiler; do
  expect NO "$package" build --config=hermetic //plugin/app:thriftps_server
done
expect YES bazel-bootstrap build --config=hermetic //plugin/app:thriftps_server
expect YES python3-torch test --config=hermetic //...
expect YES python3-pip build --config=cuda //cuda:libtps_cuda.so
expect YES lintian test //tests/plugin/package:deb_test
BAZELW_PACKAGES=all expect YES python3-torch info
