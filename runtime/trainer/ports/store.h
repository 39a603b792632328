/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The key-value store where process groups meet: an interface that the plugin implements over the
 * Rendezvous service and tests implement in memory.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsStore TpsStore;

typedef struct
{
  /* Sets a key. Errors: those of the wire call. Blocks for one round trip. Thread: any. */
  gboolean (*put) (TpsStore *store, const gchar *key, GBytes *value, GError **error);

  /* Waits until the key is there. NULL with DEADLINE_EXCEEDED after `deadline_ns` (monotonic).
   * Owned. Thread: any. */
  GBytes *(*get) (TpsStore *store, const gchar *key, gint64 deadline_ns, GError **error);

  /* Removes all keys with the prefix. Thread: any. */
  gboolean (*remove) (TpsStore *store, const gchar *prefix, GError **error);

  void (*free) (TpsStore *store);
} TpsStoreOps;

/* Implementations embed this as their first member. */
struct TpsStore
{
  const TpsStoreOps *ops;
};

G_END_DECLS
