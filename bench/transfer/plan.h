/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:transfer, and the plan of a run: its rows and their systems. */

#pragma once

#include "bench/process/flags.h"
#include "bench/transfer/system/system.h"

G_BEGIN_DECLS

/* -- options -- */

/* The command line of //bench:transfer. */

/* The fields have the names of their flags. Strings are owned. */
typedef struct
{
  TpsRunFlags run;
  gboolean peers, tls;
  gchar *transport, *system, *op; /* NULL = all */
  /* --op, --bytes, --connections or --in-flight is given: measure this row, not the table of
   * rows; the next three are given, too */
  gboolean has_row;
  gint64 bytes;
  gint connections, in_flight, idle;
  gint calls; /* 0 = chosen by the size */
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

/* -- plan -- */

/* The plan of a run: its rows and their systems. */

/* Returns the rows, an array of TpsTransferRow. The caller owns the result. */
GArray *tps_transfer_plan_rows (const TpsTransferOptions *options);

/* Returns the most bytes in flight on a connection in any row, at most TPS_TRANSFER_MAX_BYTES. */
gsize tps_transfer_plan_max_bytes (GArray *rows);

/* Returns the systems, an array of static TpsTransferSystemSpec. The caller owns the array. Errors:
 * INVALID_ARGUMENT if the flags exclude all systems, with the names of all systems. */
GPtrArray *tps_transfer_plan_systems (const TpsTransferOptions *options, GError **error);

/* Returns the warm-up of a row: a few of its calls. */
TpsTransferRow tps_transfer_plan_warm_up (const TpsTransferRow *row);

/* Returns the expected seconds of a row on a typical machine: two cores, memory of 10 GB/s. */
gdouble tps_transfer_plan_seconds (const TpsTransferSystemSpec *spec, const TpsTransferRow *row);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTransferOptions, tps_transfer_options_clear)

G_END_DECLS
