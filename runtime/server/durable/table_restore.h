/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Makes tables from files while the server serves requests: all of them or none. Internal to this
 * folder. */

#pragma once

#include "runtime/server/durable/durable.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDisk *disk;
  TpsSequencer *sequencer;
  TpsTableStore *tables; /* NULL = the server has none */
  const gchar *root;     /* paths are below it; NULL = no path is allowed */
  /* Writes a snapshot that contains the tables; blocks. */
  gboolean (*write_snapshot) (gpointer user_data, GError **error);
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsTableRestoreOptions;

/* See tps_durable_restore(). Blocks. */
gboolean tps_table_restore_run (const TpsTableRestoreOptions *options, const TpsTableSource *source,
                                GError **error);

/* `path` below `root`; the caller frees it. Symbolic links are followed: only the operator can make
 * them. Errors: PERMISSION_DENIED (no root), INVALID_ARGUMENT (the path is empty, absolute, or has
 * an empty part, "." or ".."). */
gchar *tps_table_restore_resolve (const gchar *root, const gchar *path, GError **error);

G_END_DECLS
