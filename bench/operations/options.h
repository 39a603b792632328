/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:operations. */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

typedef struct
{
  TpsRunFlags run;
  gint64 n_calls;    /* of a round, over all its connections */
  gint n_clients;    /* connections of the second row */
  gint n_tables;     /* each has series of its own */
  gint n_io_threads; /* of each server */
  gint scrape_ms;    /* between the starts of two scrapes */
  gdouble sampling;  /* part of the calls whose spans are sent */
} TpsOperationsOptions;

/* Errors: TPS_ERROR_INVALID_ARGUMENT. */
gboolean tps_operations_options_parse (TpsOperationsOptions *options, gint argc, gchar **argv,
                                       GError **error);
void tps_operations_options_clear (TpsOperationsOptions *options);

/* Lines "name=value"; owned by the caller. */
GPtrArray *tps_operations_options_describe (const TpsOperationsOptions *options);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsOperationsOptions, tps_operations_options_clear)

G_END_DECLS
