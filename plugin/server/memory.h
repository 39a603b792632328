/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How much memory this process may hope for. Inside plugin/server only. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Of the machine, or of the control group where that has less. */
gsize tps_memory_get_total (void);

G_END_DECLS
