/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A collector of traces that accepts every request and keeps nothing. It has its own thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsCollector TpsCollector;

/* Starts a collector that listens on a free port of 127.0.0.1. The caller owns the result. Errors:
 * those of GIO. */
TpsCollector *tps_collector_new (GError **error);
/* Stops the thread and frees the collector. */
void tps_collector_free (TpsCollector *collector);

/* Returns the URL, such as "http://127.0.0.1:4318". Borrowed. Thread: any. */
const gchar *tps_collector_get_url (const TpsCollector *collector);

/* Returns the number of requests so far. Thread: any. */
guint tps_collector_count (const TpsCollector *collector);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCollector, tps_collector_free)

G_END_DECLS
