#!/bin/bash
# A copy of the tree at another path, with another output base, must build the same bytes.
#
# usage: reproducible_test.sh TARGET... -- FILE...     FILEs are outputs below bazel-bin
set -euo pipefail

targets=()
while [ "$1" != -- ]; do
  targets+=("$1")
  shift
done
shift

root=$(readlink -f "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../..")
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/reproducible.XXXXXX")
copy=$work/a/path/of/another/length
bazel=${BAZEL:-/usr/bin/bazel}

run_bazel () {
  local command=$1
  shift
  (cd "$copy" &&
    "$bazel" --output_user_root="$work/root" --nohome_rc --max_idle_secs=60 \
      --host_jvm_args=-Xmx1200m "$command" "$@")
}

end () {
  run_bazel shutdown > /dev/null 2>&1
  chmod -R u+w "$work"
  rm -rf "$work"
}
trap end EXIT

mkdir -p "$copy"
(cd "$root" && git ls-files -z --cached --others --exclude-standard |
  tar -c --null --ignore-failed-read -T -) | tar -x -C "$copy"

# Builds without a cache, so that everything is built again. $REPRODUCIBLE_OPTIONS is for a quick
# check.
# shellcheck disable=SC2086 # words
run_bazel build --noshow_progress --color=no ${REPRODUCIBLE_OPTIONS:-} "${targets[@]}"

failed=0
for file; do
  if cmp "$file" "$copy/bazel-bin/$file"; then
    echo "same: $file, $(stat -Lc %s "$file") bytes"
  else
    failed=1
  fi
done
exit $failed
