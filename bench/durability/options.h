/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:durability. */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

/* The fields have the names of their flags. Strings are owned. */
typedef struct
{
  TpsRunFlags run;
  gchar *disk; /* a folder on the measured disk */
  gint64 n_rows, dim, n_ids;
  gint n_clients; /* clients that push */
  gdouble seconds;
  gint64 n_bytes; /* size of the table of snapshots; 0 until tps_durability_options_fit() */
  gboolean no_peers;
  gchar *only; /* a single part of the benchmark; NULL = all parts */
  gchar *server_binary;
} TpsDurabilityOptions;

/* Parses `argv`, sets defaults and checks the values. Errors: INVALID_ARGUMENT. */
gboolean tps_durability_options_parse (TpsDurabilityOptions *options, gint argc, gchar **argv,
                                       GError **error);
/* Frees the strings. */
void tps_durability_options_clear (TpsDurabilityOptions *options);

/* The flags, for tps_command_line_describe(). */
extern const TpsCommandLine tps_durability_command_line;

/* Checks that the disk has enough space and the machine enough memory for the run. Without --bytes,
 * chooses the largest size up to 2 GiB that fits. Errors: RESOURCE_EXHAUSTED; INVALID_ARGUMENT (the
 * folder does not exist or is not writable). */
gboolean tps_durability_options_fit (TpsDurabilityOptions *options, GError **error);

/* The same check for this many available bytes. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_durability_options_fit_into (TpsDurabilityOptions *options, guint64 free_bytes,
                                          guint64 memory_bytes, GError **error);

/* Returns TRUE if the run has the part `part`, such as "push". */
gboolean tps_durability_options_has_part (const TpsDurabilityOptions *options, const gchar *part);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDurabilityOptions, tps_durability_options_clear)

G_END_DECLS
