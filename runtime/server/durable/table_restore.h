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
  const gchar *root;     /* the folder of all paths; NULL = no path is allowed */
  /* Writes a snapshot that contains the tables; blocks. */
  gboolean (*write_snapshot) (gpointer user_data, GError **error);
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsTableRestoreOptions;

/* Makes the tables of `source`, and calls write_snapshot(). Blocks. Errors: those of
 * tps_durable_restore(). */
gboolean tps_table_restore_run (const TpsTableRestoreOptions *options, const TpsTableSource *source,
                                GError **error);

G_END_DECLS
