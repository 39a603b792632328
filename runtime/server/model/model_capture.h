/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The lasting state of a model server at one LSN, for snapshots. Versions are immutable and are
 * referenced; the optimizer's state is shared, so that the next update works on a copy. No update
 * waits. */

#pragma once

#include "runtime/server/model/kept_versions.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

/* A trainer's last update was answered with this version. */
typedef struct
{
  gint64 trainer;
  gint64 version;
} TpsModelAnswer;

/* All zero: none. */
typedef struct
{
  gint64 lsn;         /* of the last command */
  gint64 incarnation; /* 0 = there is no model, and nothing below */
  TpsOptimizerSpec optimizer;
  TpsPushDigest beginning;
  guint n_versions;
  /* References, ascending; the last one is the newest. */
  TpsModelVersion *versions[TPS_MAX_KEPT_VERSIONS + 1];
  GArray *answers;  /* of TpsModelAnswer, for versions in this capture */
  TpsBuffer *state; /* a reference; FLOAT32, see tps_trained_model_get_state() */
  gpointer model;   /* private */
} TpsModelCapture;

/* Waits until the current update, if any, has ended. One thread at a time. Errors:
 * RESOURCE_EXHAUSTED (no memory for a copy of the state). */
gboolean tps_model_server_capture (TpsModelServer *server, TpsModelCapture *capture,
                                   GError **error);
void tps_model_capture_clear (TpsModelServer *server, TpsModelCapture *capture);

/* Restores a capture into a server without a model and without calls. References are taken. Errors:
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
gboolean tps_model_server_restore (TpsModelServer *server, const TpsModelCapture *capture,
                                   GError **error);

/* Borrowed. */
TpsPushWindow *tps_model_server_get_pushes (TpsModelServer *server);

G_END_DECLS
