/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call as Python sees it: its outcome, and everything that the outcome refers to. Only for this
 * folder. */

#pragma once

#include "plugin/python/native/native.h"
#include "runtime/base/sync.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

struct TpsPythonCall
{
  TpsPythonReply reply; /* written before the call ends */

  /* Memory that the reply refers to. */
  GError *error;
  gchar *text;
  GBytes *bytes;
  TpsTensor *tensors; /* [reply.n_tensors] */
  gchar **names;

  TpsMutex lock; /* guards the next lines */
  TpsCond ended;
  gboolean has_ended;
  TpsPythonQueue *queue; /* to be notified; NULL = none */
  guint64 token;
};

TpsPythonCall *tps_python_call_new (void);

/* Ends the call; afterwards it belongs to Python alone. `error` (NULL = success) is copied. */
void tps_python_call_end (TpsPythonCall *call, const GError *error);

/* A call that has ended already. `error_taken` may be NULL. */
TpsPythonCall *tps_python_call_new_ended (GError *error_taken);

/* Before the end: moves `n` tensors in. */
void tps_python_call_take_tensors (TpsPythonCall *call, TpsTensor *tensors, guint n);
void tps_python_call_take_text (TpsPythonCall *call, GString *json_taken);
void tps_python_call_take_bytes (TpsPythonCall *call, GBytes *bytes_taken);

/* Parameters and version. */
void tps_python_call_set_model (TpsPythonCall *call, const TpsModelVersion *model);

/* A tensor that refers to borrowed elements. */
void tps_python_borrow (TpsTensor *tensor, const TpsTensorView *view);

/* Monotonic. */
gint64 tps_python_deadline (gint64 timeout_ns);

/* `token` has ended. Consumes a reference of the queue. */
void tps_python_queue_put (TpsPythonQueue *queue_taken, guint64 token);
TpsPythonQueue *tps_python_queue_ref (TpsPythonQueue *queue);

G_END_DECLS
