/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits of the disk: fio with the access patterns of the log and of snapshots. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_FIO_WRITE,  /* sequential, several blocks in flight, one sync at the end */
  TPS_FIO_READ,   /* reads the same bytes, then removes the file */
  TPS_FIO_GROUPS, /* syncs each block before it writes the next, then removes the file */
} TpsFioPattern;

typedef struct
{
  TpsFioPattern pattern;
  const gchar *folder; /* of the file, on the measured disk */
  gsize n_bytes;       /* of the file; rounded down to whole blocks */
  gsize block_bytes;   /* a multiple of 4096 */
} TpsFioJob;

/* Returns "fio-3.33", owned by the caller. If fio is missing, returns NULL; `reason` says so and
 * explains how to install it. */
gchar *tps_fio_find (TpsSupervisor *supervisor, gchar **reason, GError **error);

/* Runs a job with O_DIRECT and waits for it; fio writes its errors to stderr. Errors:
 * TPS_ERROR_ABORTED. */
gboolean tps_fio_run (TpsSupervisor *supervisor, const TpsFioJob *job, gdouble *bytes_per_s,
                      GError **error);

/* Reads the rate from the JSON of a job. Errors: TPS_ERROR_ABORTED. */
gboolean tps_fio_read_rate (const gchar *json, TpsFioPattern pattern, gdouble *bytes_per_s,
                            GError **error);

G_END_DECLS
