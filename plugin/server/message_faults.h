/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Injects faults into messages between a connection and its session: see runtime/base/fault.h.
 * Inside plugin/server only. */

#pragma once

#include "plugin/net/connection.h"
#include "runtime/base/fault.h"
#include "runtime/base/worker_pool.h"

/* Receives a message. Takes over `message`. */
typedef void (*TpsMessageEvent) (TpsConnection *connection, TpsMessage *message, gpointer data);

/* Takes over `message` and passes it to `event` according to `plan`: once, twice (the second time
 * as a oneway message, which has no reply), or not at all; the connection may then be closed.
 * Thread: the connection's loop. */
void tps_message_faults_receive (TpsFaultPlan *plan, TpsConnection *connection, TpsMessage *message,
                                 TpsMessageEvent event, gpointer data);

/* Replaces tps_connection_send() for a reply of method `name`: according to `plan`, the reply is
 * sent, delayed or dropped, and the connection may be closed. The timer thread of `workers` sends a
 * delayed reply, which later replies may overtake. */
void tps_message_faults_send (TpsFaultPlan *plan, TpsConnection *connection, const gchar *name,
                              TpsWriter *reply, TpsWorkerPool *workers);
