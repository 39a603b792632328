/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Named entries: built-in ones in one static list, and those that an embedding program adds.
 *
 * Every entry must begin with its name (const gchar *), and must never be moved or freed.
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

/* Initialises a static registry. `entries` is an array of pointers to the built-in entries. */
#define TPS_REGISTRY_INIT(what_, entries)                                         \
  {                                                                               \
    .what = (what_), .built_in = (entries), .n_built_in = G_N_ELEMENTS (entries), \
    .lock = TPS_MUTEX_INIT                                                        \
  }

/* Declares the registry `prefix`_registry and its typed functions, which are those below. Entries
 * must be registered before their users run. */
#define TPS_DECLARE_REGISTRY(Type, prefix)                                     \
  extern TpsRegistry prefix##_registry;                                        \
  static inline const Type *prefix##_find (const gchar *name, GError **error)  \
  {                                                                            \
    return (const Type *) tps_registry_find (&prefix##_registry, name, error); \
  }                                                                            \
  static inline void prefix##_register (const Type *entry)                     \
  {                                                                            \
    tps_registry_add (&prefix##_registry, entry);                              \
  }                                                                            \
  static inline const gchar **prefix##_list (void)                             \
  {                                                                            \
    return tps_registry_list (&prefix##_registry);                             \
  }                                                                            \
  extern TpsRegistry prefix##_registry

/* Returns the entry `name`, borrowed. Errors: NOT_FOUND, listing the known names. Thread: any. */
gconstpointer tps_registry_find (TpsRegistry *registry, const gchar *name, GError **error);

/* Adds `entry`, which replaces an existing entry of the same name. Thread: any. */
void tps_registry_add (TpsRegistry *registry, gconstpointer entry);

/* Returns the names, which are static, in a NULL-terminated array. The caller must free the array
 * with g_free(). Thread: any. */
const gchar **tps_registry_list (TpsRegistry *registry);

G_END_DECLS
