/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:operations. */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

/* The fields have the names of their flags. */
typedef struct
{
  TpsRunFlags run;
  gint64 n_calls;    /* calls of a round, over all connections */
  gint n_clients;    /* connections of the second row */
  gint n_tables;     /* tables; each table has its own series */
  gint n_io_threads; /* I/O threads of each server */
  gint scrape_ms;    /* milliseconds between the starts of two scrapes */
  gdouble sampling;  /* fraction of the calls whose spans are sent */
} TpsOperationsOptions;

/* Parses `argv`, sets defaults and checks the values. Errors: INVALID_ARGUMENT. */
gboolean tps_operations_options_parse (TpsOperationsOptions *options, gint argc, gchar **argv,
                                       GError **error);
/* Frees the strings. */
void tps_operations_options_clear (TpsOperationsOptions *options);

/* Returns a line "name=value" for each flag. The caller owns the result. */
GPtrArray *tps_operations_options_describe (const TpsOperationsOptions *options);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsOperationsOptions, tps_operations_options_clear)

G_END_DECLS
