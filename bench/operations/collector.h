/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A collector of traces that accepts every request and keeps nothing, on a thread of its own. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsCollector TpsCollector;

/* Listens on a free port of 127.0.0.1. Errors: those of GIO. */
TpsCollector *tps_collector_new (GError **error);
void tps_collector_free (TpsCollector *collector);

/* "http://127.0.0.1:4318"; borrowed. */
const gchar *tps_collector_get_url (const TpsCollector *collector);

/* Requests so far. Thread: any. */
guint tps_collector_count (const TpsCollector *collector);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCollector, tps_collector_free)

G_END_DECLS
