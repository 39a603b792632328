/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Python interpreter of the peers' scripts, which determines their version of PyTorch. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the interpreter named by THRIFTPS_PYTHON; else that of bench/peers/install, if it has
 * been run; else Debian's. Borrowed. Thread: any. */
const gchar *tps_bench_find_python (void);

/* Returns "" or, for Debian's Python, a line for reports: its PyTorch is old. Static. */
const gchar *tps_bench_describe_python (void);

G_END_DECLS
