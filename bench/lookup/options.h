/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:lookup. */

#pragma once

#include "bench/lookup/bags.h"
#include "bench/process/flags.h"
#include "runtime/embedding/table_spec.h"

/* The fields are values of flags. Strings are owned. */
typedef struct
{
  TpsRunFlags run;
  gchar *only, *server_binary, *device, *ids, *dtype;
  TpsTablePlace place;     /* the place that --device names */
  TpsLookupIdKind id_kind; /* the distribution that --ids names */
  gint64 n_rows, dim, n_bags, bag_length, n_batches, n_steps;
  gint n_threads;
  gint64 remote_dim, n_ids, n_calls;
  TpsDType remote_dtype; /* the type that --remote-dtype names */
  gint n_clients;
  gdouble seconds;
  gboolean to_device; /* the steps also measure lookups for a caller on the device */
} TpsLookupOptions;

/* Parses `argv`, sets defaults and checks the values. Errors: INVALID_ARGUMENT. */
gboolean tps_lookup_options_parse (TpsLookupOptions *options, gint argc, gchar **argv,
                                   GError **error);
/* Frees the strings. */
void tps_lookup_options_clear (TpsLookupOptions *options);

/* The flags, for tps_command_line_describe(). */
extern const TpsCommandLine tps_lookup_command_line;

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupOptions, tps_lookup_options_clear)
