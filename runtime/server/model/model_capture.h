/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The durable state of a model server at one LSN, for snapshots. A capture holds references to the
 * versions, which are immutable, and to the optimizer's state, so the next update works on a copy
 * of the state. Updates do not wait for a snapshot. */

#pragma once

#include "runtime/server/model/kept_versions.h"
#include "runtime/server/model/trained_model.h"

G_BEGIN_DECLS

/* The version that was the answer to the last update of a trainer. */
typedef struct
{
  gint64 trainer;
  gint64 version;
} TpsModelAnswer;

/* All zero: an empty capture. */
typedef struct TpsModelCapture
{
  gint64 lsn;         /* of the last command */
  gint64 incarnation; /* 0 = there is no model, and the members below are empty */
  TpsOptimizerSpec optimizer;
  TpsPushDigest beginning;
  guint n_versions;
  /* References, ascending; the last one is the newest. */
  TpsModelVersion *versions[TPS_MAX_KEPT_VERSIONS + 1];
  GArray *answers;        /* of TpsModelAnswer, for versions in this capture */
  TpsBuffer *state;       /* a reference; FLOAT32, see tps_trained_model_get_state() */
  TpsTrainedModel *model; /* a reference, to the model with the spare buffer of its state */
} TpsModelCapture;

/* Captures the state of `model`, but neither `lsn` nor `incarnation`. `capture->state` must be the
 * buffer in which the next update will write its copy of the optimizer's state; ownership is taken.
 * FALSE: there is no buffer, or it is smaller than the state. No update may be in progress. */
gboolean tps_model_capture_take (TpsModelCapture *capture, TpsTrainedModel *model,
                                 const TpsKeptVersions *kept, guint n_trainers);
void tps_model_capture_clear (TpsModelCapture *capture);

/* Creates a model with the state of the capture, which the caller owns. References to the versions
 * are taken; the optimizer's state is copied. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
TpsTrainedModel *tps_model_capture_new_model (const TpsModelCapture *capture,
                                              TpsBufferPool *buffers, GError **error);

/* Adds the captured versions to `kept`, in ascending order. Each version is the last answer to its
 * trainers. `dropped` as in tps_kept_versions_add(). */
void tps_model_capture_keep_versions (const TpsModelCapture *capture, TpsKeptVersions *kept,
                                      guint n_trainers, GPtrArray *dropped);

G_END_DECLS
