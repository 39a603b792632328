/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A call to one server, and the conversion of its result to a reply. Private to this folder. */

#pragma once

#include "plugin/python/native/python_call.h"

/* Sends a call and returns it, owned by the caller. The arguments are copied, and their contents
 * taken. Memory that they borrow stays borrowed until the call has ended. */
TpsPythonCall *tps_python_request_send (TpsClient *client, const TpsRpc *rpc,
                                        gconstpointer arguments, TpsRetry retry, gint64 timeout_ns);

/* Returns a call that has ended with an error of its arguments, and frees their contents. Takes
 * over `error_taken`. */
TpsPythonCall *tps_python_refuse (const TpsRpc *rpc, gpointer arguments, GError *error_taken);
