#!/bin/bash
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
#
# A row of a table of methods (TpsMethod) must not compile without a right.

set -eu
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

# Compiles a table with this row, with the options of the tree's own files.
compile() {
  LC_ALL=C gcc -x c -std=c11 -D_GNU_SOURCE -Wall -Werror -fsyntax-only -I. -Iplugin/include \
    $(pkg-config --cflags glib-2.0) - <<TABLE
#include "plugin/service/call.h"

static const TpsRpc rpc = { "Test", "echo", NULL, NULL };

static void
handle (TpsCall *call, gpointer service)
{
}

const TpsMethod methods[] = { $1, { 0 } };
TABLE
}

compile '{ TPS_RIGHT_READ, &rpc, handle, TPS_METHOD_INLINE }'
for row in '{ &rpc, handle, TPS_METHOD_INLINE }' '{ &rpc, handle }'; do
  if message=$(compile "$row" 2>&1); then
    echo "the row $row compiles without a right"
    exit 1
  fi
  if ! grep -q "incompatible types when initializing type .enum" <<<"$message"; then
    echo "the row $row does not compile for another reason: $message"
    exit 1
  fi
done
