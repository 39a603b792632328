/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits of the disk: fio with the patterns in which the log and snapshots write and read. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_FIO_WRITE,  /* sequential, several blocks at a time, one sync at the end */
  TPS_FIO_READ,   /* the same bytes again; the file is removed */
  TPS_FIO_GROUPS, /* each block is synced before the next one is written; the file is removed */
} TpsFioPattern;

typedef struct
{
  TpsFioPattern pattern;
  const gchar *folder; /* of the file, on the disk that is measured */
  gsize n_bytes;       /* of the file; it is cut to whole blocks */
  gsize block_bytes;   /* a multiple of 4096 */
} TpsFioJob;

/* "fio-3.33", owned by the caller; NULL where there is none: `reason` says so, and how to install
 * it. */
gchar *tps_fio_find (TpsSupervisor *supervisor, gchar **reason, GError **error);

/* Runs a job with O_DIRECT and waits for it. Errors: TPS_ERROR_ABORTED; fio writes to stderr. */
gboolean tps_fio_run (TpsSupervisor *supervisor, const TpsFioJob *job, gdouble *bytes_per_s,
                      GError **error);

/* The rate in the JSON of a job. Errors: TPS_ERROR_ABORTED. */
gboolean tps_fio_read_rate (const gchar *json, TpsFioPattern pattern, gdouble *bytes_per_s,
                            GError **error);

G_END_DECLS
