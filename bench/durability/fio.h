/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits of the disk: fio with the access patterns of the log and of snapshots. */

#pragma once

#include "bench/process/child.h"

G_BEGIN_DECLS

/* The access patterns. */
typedef enum
{
  TPS_FIO_WRITE,  /* writes sequentially, several blocks in flight, one sync at the end */
  TPS_FIO_READ,   /* reads the same bytes, then removes the file */
  TPS_FIO_GROUPS, /* syncs each block before the next block, then removes the file */
} TpsFioPattern;

/* A job of fio; borrowed. */
typedef struct
{
  TpsFioPattern pattern;
  const gchar *folder; /* the folder of the file, on the measured disk */
  gsize n_bytes;       /* the size of the file; rounded down to whole blocks */
  gsize block_bytes;   /* a multiple of 4096 */
} TpsFioJob;

/* Returns the version, such as "fio-3.33". Returns NULL with `*reason` if fio is not installed, or
 * with an error. The caller owns the result and the reason. */
gchar *tps_fio_find (TpsSupervisor *supervisor, gchar **reason, GError **error);

/* Runs a job with O_DIRECT, whose rate `*bytes_per_s` receives. Blocks. Errors: ABORTED. */
gboolean tps_fio_run (TpsSupervisor *supervisor, const TpsFioJob *job, gdouble *bytes_per_s,
                      GError **error);

/* Reads the rate from the JSON of a job. Errors: ABORTED (there is no rate). */
gboolean tps_fio_read_rate (const gchar *json, TpsFioPattern pattern, gdouble *bytes_per_s,
                            GError **error);

G_END_DECLS
