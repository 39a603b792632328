/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The samples of a run by their numbers, from a file or synthetic. */

#pragma once

#include "bench/dlrm/criteo_log.h"
#include "bench/dlrm/synthetic_log.h"

G_BEGIN_DECLS

/* A log of either kind. */
typedef struct
{
  TpsSyntheticLog synthetic;
  TpsCriteoLog *file; /* NULL = synthetic */
  guint64 position;   /* the number of the next sample of the file */
} TpsClickLog;

/* Initialises a log in the caller's storage. `path` is NULL for synthetic samples. `synthetic` is
 * copied; its shape also applies to files. Errors: those of tps_criteo_log_open(). */
gboolean tps_click_log_init (TpsClickLog *log, const TpsSyntheticLog *synthetic, const gchar *path,
                             GError **error);
void tps_click_log_clear (TpsClickLog *log);

/* Fills `batch`, which must have been initialised, with the samples from number `first` on. `first`
 * must not decrease from call to call. Errors: those of the file. */
gboolean tps_click_log_read (TpsClickLog *log, guint64 first, TpsClickBatch *batch, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsClickLog, tps_click_log_clear)

G_END_DECLS
