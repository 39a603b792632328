/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The registry of averaging servers by name. The two built-in kinds differ only in when they fold
 * contributions: in memory and time, not in bits. A kind that a program adds may also override what
 * subclasses override in the PyTorch benchmarks' ParameterServerBase: process_gradient, the
 * average, reset_state, and the records of stragglers and batches. */

#pragma once

#include "runtime/base/metrics.h"
#include "runtime/server/averaging/averaging.h"

G_BEGIN_DECLS

/* The events of a round that are recorded, in order of time. */
typedef enum
{
  TPS_RECORD_STRAGGLER_START = 1, /* the first gradient has arrived */
  TPS_RECORD_BATCH_START = 2,     /* the first gradient has arrived */
  TPS_RECORD_STRAGGLER_END = 3,   /* the last gradient has arrived */
  TPS_RECORD_BATCH_END = 4,       /* the average is complete */
} TpsServerRecord;

typedef struct
{
  gint64 batch;
  gint32 param_loc;
} TpsRoundId;

/* All functions but `may_fold` are optional. `state` is the result of `create` for this server;
 * NULL without `create`. The functions must not block. Unless stated otherwise, they may run on
 * several threads at a time, and no lock is held. */
typedef struct
{
  const gchar *name;
  const gchar *summary;    /* one line for --list */
  TpsMayFoldFunc may_fold; /* called with the server's lock held */

  /* Creates the state of a server. */
  gpointer (*create) (guint n_trainers);
  /* Frees the state. Called once, after all other calls have returned. */
  void (*destroy) (gpointer state);

  /* Examines each gradient, also of repeats, before it takes part in a round, with the same result
   * for the same bytes. May change the weight and replace tensors, but not write to elements, which
   * other gradients may share. FALSE refuses the call with the error. */
  gboolean (*process_gradient) (gpointer state, gint32 trainer, const TpsRoundId *round,
                                TpsGradient *gradient, GError **error);

  /* Turns the average into the reply, once for each round. May write to its elements, which may lie
   * on the server's device, and replace tensors by others of the same dtype and shape. FALSE fails
   * the calls of the round with the error. */
  gboolean (*process_average) (gpointer state, const TpsRoundId *round, TpsGradient *average,
                               GError **error);

  /* Resets the state. Called after ParameterServer.reset_state has ended and forgotten all
   * rounds. */
  void (*reset_state) (gpointer state);

  /* Replaces tps_server_kind_record(), which it may call. The server's lock is held: calls come one
   * at a time, and the function must not call the server. */
  void (*record) (gpointer state, TpsMetrics *metrics, TpsServerRecord record,
                  const TpsRoundId *round);
} TpsServerKind;

#define TPS_SERVER_KIND_DEFAULT "AverageParameterServer"

/* Returns the kind with this name, static; NULL = TPS_SERVER_KIND_DEFAULT. Errors:
 * TPS_ERROR_NOT_FOUND, listing the known kinds. Thread: any. */
const TpsServerKind *tps_server_kind_find (const gchar *name, GError **error);

/* Registers a kind of the program; `kind` must live as long as the process. Errors:
 * TPS_ERROR_ALREADY_EXISTS, TPS_ERROR_RESOURCE_EXHAUSTED (more than 64 kinds, with the built-in
 * ones). Thread: any. */
gboolean tps_server_kind_register (const TpsServerKind *kind, GError **error);

/* Records the spans "param_index_straggler" and "param_index_batch" of a round in `metrics`. */
void tps_server_kind_record (TpsMetrics *metrics, TpsServerRecord record, const TpsRoundId *round);

/* Returns all kinds, the built-in ones first and the others in the order of registration,
 * NULL-terminated. The array is owned by the caller (g_free). Thread: any. */
const TpsServerKind **tps_server_kind_list (void);

G_END_DECLS
