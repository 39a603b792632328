/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limit: reading rows in the order of some ids, each asked for a while before, and adding them
 * all up in registers; no bags, nothing written. (Copying rows to a stage in the first-level cache
 * took a quarter longer.)
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Thread: any. */
void tps_lookup_gather (const gfloat *table, const gint64 *ids, gsize n, gsize dim);

G_END_DECLS
