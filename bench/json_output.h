/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The JSON that every benchmark writes (schema 1): versions, host, flags, figures with raw samples, peers, ratios. */

#pragma once

#include "bench/results.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *benchmark; /* "parameter_server" */
  GPtrArray *flags;       /* of "name=value" */
  TpsBenchResults *ours;
  const gchar *peer_name; /* NULL: no peer */
  const gchar *peer_version;
  TpsBenchResults *peer;
} TpsBenchOutput;

/* Writes the whole file or nothing. Errors: what the file system says, naming the path. */
gboolean tps_bench_json_write (const TpsBenchOutput *output, const gchar *path, GError **error);

/* "AMD EPYC 7B13, 2 cores, 23.4 GiB, Linux 6.1.0"; owned. */
gchar *tps_bench_describe_host (void);

G_END_DECLS
