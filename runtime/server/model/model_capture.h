/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The durable state of a model server at one LSN, for snapshots. A capture holds references to the
 * versions, which are immutable, and to the optimizer's state, so the next update works on a copy
 * of the state. Updates do not wait for a snapshot. */

#pragma once

#include "runtime/server/model/kept_versions.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

/* The version that was the answer to the last update of a trainer. */
typedef struct
{
  gint64 trainer;
  gint64 version;
} TpsModelAnswer;

/* All zero: an empty capture. */
typedef struct
{
  gint64 lsn;         /* of the last command */
  gint64 incarnation; /* 0 = there is no model, and the members below are empty */
  TpsOptimizerSpec optimizer;
  TpsPushDigest beginning;
  guint n_versions;
  /* References, ascending; the last one is the newest. */
  TpsModelVersion *versions[TPS_MAX_KEPT_VERSIONS + 1];
  GArray *answers;  /* of TpsModelAnswer, for versions in this capture */
  TpsBuffer *state; /* a reference; FLOAT32, see tps_trained_model_get_state() */
  gpointer model;   /* private */
} TpsModelCapture;

/* Captures the state of `server` as soon as the current update, if any, has ended. Blocks until
 * then. The caller must clear the capture. Errors: RESOURCE_EXHAUSTED (no memory for a copy of the
 * optimizer's state). Thread: one at a time. */
gboolean tps_model_server_capture (TpsModelServer *server, TpsModelCapture *capture,
                                   GError **error);
void tps_model_capture_clear (TpsModelServer *server, TpsModelCapture *capture);

/* Restores a capture into a server, which must have no model and no calls. References to the
 * versions are taken; the optimizer's state is copied. Errors: INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED. */
gboolean tps_model_server_restore (TpsModelServer *server, const TpsModelCapture *capture,
                                   GError **error);

/* Returns the push window of the server. Borrowed. */
TpsPushWindow *tps_model_server_get_pushes (TpsModelServer *server);

G_END_DECLS
