#!/bin/bash
# A host may have an enum or a service with the same name as one of ThriftPS. Therefore the output
# of thrift_c_glib_library must not define a global symbol outside its namespace.
set -euo pipefail

found_any=
for library; do
  case $library in *.a) ;; *) continue ;; esac
  names=$(nm --extern-only --defined-only --format=posix "$library" | awk 'NF >= 3 {print $1}')
  [ -n "$names" ]
  found_any=yes
  if strange=$(grep -v '^tps_wire_' <<<"$names"); then
    printf 'global names without the prefix tps_wire_ in %s:\n%s\n' "$library" "$strange" >&2
    exit 1
  fi
done
[ "$found_any" ] || { echo 'no library was given' >&2; exit 1; }
