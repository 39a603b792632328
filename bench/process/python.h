/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Python interpreter of the peers' scripts. It determines the PyTorch version. */

#pragma once

#include <glib.h>

/* Returns the path of the interpreter: the value of THRIFTPS_PYTHON; without it, the interpreter
 * that bench/peers/install has installed; without that, Debian's. Borrowed. Thread: any. */
const gchar *tps_bench_find_python (void);

/* Returns a line for reports if it is Debian's, with an old PyTorch; otherwise "". Static. */
const gchar *tps_bench_describe_python (void);
