/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:dlrm, and the tables that it describes. */

#pragma once

#include "bench/dlrm/click_log.h"
#include "bench/process/flags.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

/* -- options -- */

/* The command line of //bench:dlrm. */

#define TPS_DLRM_PYTORCH "pytorch"
#define TPS_DLRM_TORCHREC "torchrec"

/* The fields have the names of their flags. Strings are owned. */
typedef struct
{
  TpsRunFlags run;
  gint n_trainers, n_servers, n_threads, staleness;
  gint64 batch, steps, dim, multi_hot, seed;
  gdouble scale, exponent, lr;
  gchar *ids, *optimizer, *transport;
  gboolean no_prefetch, no_reference;
  gchar **given; /* the command line, for child processes */

  /* For child processes. */
  gchar *role; /* "trainer", "local"; NULL in the launcher */
  gint rank;
  gchar *addresses; /* of the servers, separated by commas */

  /* Derived. */
  TpsOptimizerSpec table_optimizer; /* resolved */
  TpsClickShape shape;
} TpsDlrmOptions;

/* Parses the command line, sets defaults and checks the values. Errors: INVALID_ARGUMENT. */
gboolean tps_dlrm_options_parse (TpsDlrmOptions *options, gint argc, gchar **argv, GError **error);
/* Frees the strings. */
void tps_dlrm_options_clear (TpsDlrmOptions *options);

/* The flags, for tps_command_line_describe(). */
extern const TpsCommandLine tps_dlrm_command_line;

/* Returns the number of steps of the warm-up. */
guint tps_dlrm_options_get_warm_up (const TpsDlrmOptions *options);

/* Initialises the synthetic log that the options describe. */
void tps_dlrm_options_init_log (const TpsDlrmOptions *options, TpsSyntheticLog *log);

/* -- table names -- */

/* The names and specifications of the tables, on servers and in the single process. */

/* Returns the name of a table. Static. */
const gchar *tps_dlrm_table_name (guint table);

/* Initialises the specification of a table, which the caller must clear. The values of rows are
 * uniform in ±1 / sqrt (rows), as in DLRM. */
void tps_dlrm_table_spec_init (TpsTableSpec *spec, const TpsDlrmOptions *options, guint table);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDlrmOptions, tps_dlrm_options_clear)

G_END_DECLS
