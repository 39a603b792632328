/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The flags of thriftps_server. */

#pragma once

#include "plugin/server/server.h"
#include "runtime/base/trace.h"
#include "runtime/server/averaging/parameter_server.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/server/push_window.h"

G_BEGIN_DECLS

typedef struct
{
  GStrv listen;           /* at least one */
  GStrv services;         /* names, each known, none twice, Node always */
  gchar *default_service; /* one of them, or NULL */
  gchar *name;
  gchar *server; /* kind of the averaging server */
  gchar *device; /* where gradients are added up: "cpu", "cuda:0"; not yet looked for */
  guint n_trainers;
  TpsReduce reduce;
  gint64 rpc_timeout_ns;
  guint min_trainers;        /* that suffice for an update of the model at the deadline; 0 = all */
  guint max_staleness;       /* versions that a gradient may be older than the model */
  gsize max_table_bytes;     /* of all embedding tables; 0 = 0.8 of the memory */
  TpsTablePlace table_place; /* of tables that say none; its device is not yet looked for */
  TpsPushWindowOptions pushes;
  TpsTraceLevel log_level;
  gboolean version;         /* asked to print it and end */
  TpsServerOptions options; /* default_service is the one above */
} TpsServerFlags;

/* `argv` as main() has it, ended by NULL; --config files are read. `flags` is filled on success only. Ends the process with
 * 0 after --help. Errors: INVALID_ARGUMENT, one line that names the flag. */
gboolean tps_server_flags_parse (const gchar *const *argv, TpsServerFlags *flags, GError **error);
void tps_server_flags_clear (TpsServerFlags *flags);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsServerFlags, tps_server_flags_clear)

G_END_DECLS
