/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A call to one server: method, arguments, and the conversion of its result to a reply. Private to
 * this folder. */

#pragma once

#include "plugin/client/retry.h"
#include "plugin/python/native/python_call.h"

G_BEGIN_DECLS

/* The struct for the result of a method, and its conversion to a reply. */
typedef struct
{
  gsize n_bytes; /* of the result, which is zero before it is read */
  void (*take) (TpsPythonCall *call, gpointer result);
  void (*clear) (gpointer result); /* NULL: nothing to clear */
} TpsPythonAnswer;

typedef enum
{
  TPS_PYTHON_RETRY_NEVER, /* the method must not be sent twice */
  TPS_PYTHON_RETRY_ONCE,
  TPS_PYTHON_RETRY_UNTIL_DEADLINE,
} TpsPythonRetry;

typedef struct
{
  const TpsRpc *rpc;
  gsize n_argument_bytes;
  gconstpointer arguments;            /* copied, and their contents taken; may be NULL */
  void (*clear_arguments) (gpointer); /* NULL: nothing to clear */
  const TpsPythonAnswer *answer;      /* NULL: void */
  TpsPythonRetry retry;
} TpsPythonRequest;

/* Sends the call and returns it, owned by the caller. Memory that the arguments borrow stays
 * borrowed until the call has ended. */
TpsPythonCall *tps_python_request_send (TpsClient *client, const TpsPythonRequest *request,
                                        gint64 timeout_ns);

/* For methods that return a number. */
extern const TpsPythonAnswer tps_python_number_answer; /* gint64 */

G_END_DECLS
