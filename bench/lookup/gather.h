/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limit: reading rows in a random order, and nothing else. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Copies rows to a stage that the first-level cache holds, each asked for a while before. Thread: any. */
void tps_lookup_gather (const gfloat *table, const gint64 *ids, gsize n, gsize dim);

G_END_DECLS
