/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:transfer. */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

/* The fields have the names of their flags. Strings are owned. */
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
  /* --op, --bytes, --connections or --in-flight is given: measure this row, not the table of
   * rows; the next three are given, too */
  gboolean has_row;
  gint64 bytes;
  gint connections;
  gint in_flight;
  gint calls; /* 0 = chosen by the size */
  gint idle;
  gdouble seconds;

  gchar *serve, *load, *address, *certificate; /* for child processes */
} TpsTransferOptions;

/* Parses `argv`, sets defaults and checks the values. Errors: INVALID_ARGUMENT. */
gboolean tps_transfer_options_parse (TpsTransferOptions *options, gint argc, gchar **argv,
                                     GError **error);
/* Frees the strings. */
void tps_transfer_options_clear (TpsTransferOptions *options);

/* The flags, for tps_command_line_describe(). */
extern const TpsCommandLine tps_transfer_command_line;

/* Returns the maximum number of idle connections: the limit on open files of this process, without
 * the descriptors for other purposes. */
gint tps_transfer_options_get_max_idle (void);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTransferOptions, tps_transfer_options_clear)

G_END_DECLS
