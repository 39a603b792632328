/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Named entries: built-in ones in one static list, and those that an embedding program adds.
 *
 * Internal to runtime/; each kind of entry has typed functions in its own header. Every entry
 * begins with its name (const gchar *), and must never be moved or freed.
 */

#pragma once

#include <glib.h>

#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *what; /* for messages: "hook" */
  const gconstpointer *built_in;
  guint n_built_in;

  TpsMutex lock;
  GPtrArray *added; /* under `lock`; NULL while there is none */
} TpsRegistry;

/* For static storage. `entries`: an array of pointers. */
#define TPS_REGISTRY_INIT(what_, entries)                                         \
  {                                                                               \
    .what = (what_), .built_in = (entries), .n_built_in = G_N_ELEMENTS (entries), \
    .lock = TPS_MUTEX_INIT                                                        \
  }

/* NULL with TPS_ERROR_NOT_FOUND: the message lists the known names. Thread: any. */
gconstpointer tps_registry_find (TpsRegistry *registry, const gchar *name, GError **error);

/* An entry replaces an existing one with the same name. Thread: any. */
void tps_registry_add (TpsRegistry *registry, gconstpointer entry);

/* Static names in a NULL-terminated array, which the caller owns (g_free). Thread: any. */
const gchar **tps_registry_list (TpsRegistry *registry);

G_END_DECLS
