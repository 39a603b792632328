/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:transfer. */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

/* Fields are named for their flags; strings are owned. */
typedef struct
{
  TpsRunFlags run;
  gboolean full;
  gboolean chunks;
  gboolean peers;
  gboolean tls;
  gchar *transport; /* NULL = all */
  gchar *system;    /* NULL = all */
  gchar *op;        /* NULL = all */
  gboolean
      has_row; /* op, bytes, connections or in_flight were said: that row, not the table of rows */
  gint64 bytes;
  gint connections;
  gint in_flight;
  gint calls; /* 0 = by the size */
  gint idle;
  gdouble seconds;
  gchar *plot;

  gchar *serve, *load, *address, *certificate; /* for children */
} TpsTransferOptions;

/* Errors: TPS_ERROR_INVALID_ARGUMENT. */
gboolean tps_transfer_options_parse (TpsTransferOptions *options, gint argc, gchar **argv,
                                     GError **error);
void tps_transfer_options_clear (TpsTransferOptions *options);

/* Lines "name=value" for reports, those of a row where there is one; owned by the caller. */
GPtrArray *tps_transfer_options_describe (const TpsTransferOptions *options);

/* Connections that a process may have, but for those that are no idle ones. */
gint tps_transfer_options_get_max_idle (void);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTransferOptions, tps_transfer_options_clear)

G_END_DECLS
