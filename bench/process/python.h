/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Python that scripts of peers run on, which decides what PyTorch they have. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The interpreter that THRIFTPS_PYTHON names; else that of bench/peers/install, if it has been run;
 * else Debian's. Borrowed. Thread: any. */
const gchar *tps_bench_find_python (void);

/* "" or, if scripts run on Debian's Python, a line for reports: its PyTorch is old. Static. */
const gchar *tps_bench_describe_python (void);

G_END_DECLS
