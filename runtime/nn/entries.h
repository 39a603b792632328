/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The named classes of runtime/nn: built-in ones in a static array, and those that an embedding program registers.
 *
 * Internal to this folder; every kind has typed functions in its own header. A class begins with its name
 * (const gchar *) and stays where it is for ever.
 */

#pragma once

#include "runtime/sync.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *what; /* for messages: "model" */
  const gconstpointer *built_in;
  guint n_built_in;

  TpsMutex lock;
  GArray *registered; /* of gconstpointer, under `lock`; NULL while there is none */
} TpsNnEntries;

#define TPS_NN_ENTRIES_INIT(what_, built_in_)                                         \
  {                                                                                   \
    .what = (what_), .built_in = (built_in_), .n_built_in = G_N_ELEMENTS (built_in_), \
    .lock = TPS_MUTEX_INIT                                                            \
  }

/* NULL with NOT_FOUND, the message lists the known names. Thread: any. */
gconstpointer tps_nn_entries_find (TpsNnEntries *entries, const gchar *name, GError **error);

/* The newest of a name hides the older ones. Thread: any. */
void tps_nn_entries_register (TpsNnEntries *entries, gconstpointer entry);

/* Names, sorted, NULL-terminated; the array is owned by the caller (g_free). Thread: any. */
const gchar **tps_nn_entries_list (TpsNnEntries *entries);

G_END_DECLS
