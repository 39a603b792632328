/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The durable state of a model server at one LSN, for snapshots. A capture holds references to the
 * versions, which are immutable, and to the optimizer's state, so the next update works on a copy
 * of the state. Updates do not wait for a snapshot. */

#pragma once

#include "runtime/server/model/trained_model.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

/* -- kept versions -- */

/* The versions of a model that trainers may request again: each the answer to its last update. The
 * newest TPS_MAX_KEPT_VERSIONS are kept. Thread: one at a time. */

#define TPS_MAX_KEPT_VERSIONS 8

typedef struct
{
  TpsModelVersion *model;
  guint n_trainers; /* trainers whose last answer was this version */
} TpsKeptVersion;

typedef struct
{
  gint64 *last_answers; /* [n_trainers]; 0 = none */
  guint n_kept;
  TpsKeptVersion kept[TPS_MAX_KEPT_VERSIONS + 1]; /* oldest first */
} TpsKeptVersions;

/* Initialise and clear `versions` in the caller's storage. At first, no version is kept; clear()
 * releases all versions. */
void tps_kept_versions_init (TpsKeptVersions *versions, guint n_trainers);
void tps_kept_versions_clear (TpsKeptVersions *versions);

/* Adds `model`, newer than all kept versions, as the last answer to `trainers` [n_trainers], which
 * must not repeat; takes a reference. Versions that nobody may request any more move to `dropped`,
 * to be released without a lock. */
void tps_kept_versions_add (TpsKeptVersions *versions, TpsModelVersion *model,
                            const gint32 *trainers, guint n_trainers, GPtrArray *dropped);

/* Moves all versions to `dropped` and forgets the last answers of all trainers. */
void tps_kept_versions_reset (TpsKeptVersions *versions, guint n_trainers, GPtrArray *dropped);

/* Returns the kept version with this number, or NULL if it is not kept. Borrowed. */
TpsModelVersion *tps_kept_versions_find (const TpsKeptVersions *versions, gint64 version);

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
