/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The key-value store through which process groups join; the plugin implements it over
 * Rendezvous. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsStore TpsStore;

typedef struct
{
  /* Sets a key to `value`, which is borrowed. Blocks for one round trip. Errors: those of the wire
   * call. Thread: any. */
  gboolean (*put) (TpsStore *store, const gchar *key, GBytes *value, GError **error);

  /* Waits until the key exists. The value is owned by the caller. Errors (NULL): DEADLINE_EXCEEDED
   * after `deadline_ns` (monotonic). Thread: any. */
  GBytes *(*get) (TpsStore *store, const gchar *key, gint64 deadline_ns, GError **error);

  /* Removes all keys that begin with `prefix`. Thread: any. */
  gboolean (*remove) (TpsStore *store, const gchar *prefix, GError **error);

  /* Closes the connection and frees the store. */
  void (*free) (TpsStore *store);
} TpsStoreOps;

/* Implementations embed this struct as their first member. */
struct TpsStore
{
  const TpsStoreOps *ops;
};

G_END_DECLS
