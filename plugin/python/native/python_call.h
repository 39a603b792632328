/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call as Python sees it: its outcome, with all memory that the outcome refers to. Private to
 * this folder. */

#pragma once

#include <pthread.h>

#include "plugin/python/native/native.h"

struct TpsPythonCall
{
  TpsPythonReply reply; /* written before the call ends */
  gint references;      /* atomic: Python's, and that of the thread that ends the call */

  /* Memory that the reply refers to: */
  GError *error;
  gchar *text;
  GBytes *bytes;
  TpsTensor *tensors; /* [reply.n_tensors] */
  gchar **names;

  pthread_mutex_t lock; /* guards all fields below */
  pthread_cond_t ended;
  gboolean has_ended;
  TpsPythonQueue *queue; /* to be notified; a reference; NULL = none */
  guint64 token;
};

/* Creates a call with a reference of the caller, and one for tps_python_call_end(). */
TpsPythonCall *tps_python_call_new (void);

/* Ends the call, and releases the reference of its sender, so that only Python still owns the call.
 * `error` (NULL = success) is copied. */
void tps_python_call_end (TpsPythonCall *call, const GError *error);

/* Creates a call that has ended. Takes over `error_taken`; NULL = success. */
TpsPythonCall *tps_python_call_new_ended (GError *error_taken);

/* Move the tensors, the text or the bytes of the reply into the call, before its end. */
void tps_python_call_take_tensors (TpsPythonCall *call, TpsTensor *tensors, guint n);
void tps_python_call_take_text (TpsPythonCall *call, GString *json_taken);
void tps_python_call_take_bytes (TpsPythonCall *call, GBytes *bytes_taken);

/* Sets the parameters and the version of the reply. Must be called before the end of the call. */
void tps_python_call_set_model (TpsPythonCall *call, const TpsModelVersion *model);

/* Returns the monotonic deadline of a timeout that begins now. */
gint64 tps_python_deadline (gint64 timeout_ns);
