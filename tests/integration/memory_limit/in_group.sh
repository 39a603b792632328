#!/bin/sh
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
#
# in_group.sh PROCS PROGRAM ARGUMENT...: runs a program in the control group whose file cgroup.procs
# is PROCS.
procs=$1
shift
echo $$ > "$procs" || exit 1
exec "$@"
