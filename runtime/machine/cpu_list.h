/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The kernel's lists of processors: "0-3,8\n". */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Numbers of processors must be below this limit. */
#define TPS_CPU_LIST_LIMIT 65536

/* Returns the numbers (an array of guint) in the order of the list; NULL if `text` is not a list or
 * is empty. The caller owns the array. */
GArray *tps_cpu_list_parse (const gchar *text);

G_END_DECLS
