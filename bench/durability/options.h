/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:durability. */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *disk; /* a folder on the measured disk */
  gint64 n_rows, dim, n_ids;
  gint n_clients;        /* for pushes */
  gint n_lookup_clients; /* for lookups during the pushes of `n_load_clients` */
  gint n_load_clients;
  gdouble seconds;
  gint64 n_bytes; /* of the table of snapshots; 0 until the available space is known */
  gboolean no_peers;
  gchar *only; /* a single part; NULL = all */
  gchar *server_binary;
  gchar *plot;
  TpsRunFlags run;
} TpsDurabilityOptions;

/* Parses `argv`. Errors: TPS_ERROR_INVALID_ARGUMENT. */
gboolean tps_durability_options_parse (TpsDurabilityOptions *options, gint argc, gchar **argv,
                                       GError **error);
void tps_durability_options_clear (TpsDurabilityOptions *options);

/* Returns lines "name=value". Owned by the caller. */
GPtrArray *tps_durability_options_describe (const TpsDurabilityOptions *options);

/* Checks that the disk has enough space and the machine enough memory for the run. Without --bytes,
 * chooses the largest size up to 2 GiB that fits. Errors: TPS_ERROR_RESOURCE_EXHAUSTED,
 * TPS_ERROR_INVALID_ARGUMENT (no such folder). */
gboolean tps_durability_options_fit (TpsDurabilityOptions *options, GError **error);

/* The same check for a disk with `free_bytes` and a machine with `memory_bytes`, both available. */
gboolean tps_durability_options_fit_into (TpsDurabilityOptions *options, guint64 free_bytes,
                                          guint64 memory_bytes, GError **error);

gboolean tps_durability_options_has_part (const TpsDurabilityOptions *options, const gchar *part);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDurabilityOptions, tps_durability_options_clear)

G_END_DECLS
