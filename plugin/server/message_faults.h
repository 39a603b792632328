/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Injected faults of messages, between a connection and its session: see runtime/base/fault.h.
 * Inside plugin/server only. */

#pragma once

#include "plugin/net/connection.h"
#include "runtime/base/fault.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef void (*TpsMessageEvent) (TpsConnection *connection, TpsMessage *message, gpointer data);

/* Takes over `message` and passes it to `event` once, twice (the second time as a oneway message,
 * which has no reply), or never. Thread: the connection's loop. */
void tps_message_faults_receive (TpsFaultPlan *plan, TpsConnection *connection, TpsMessage *message,
                                 TpsMessageEvent event, gpointer data);

/* Replaces tps_connection_send() for a reply of method `name`. The timer thread of `workers` sends
 * a delayed reply, which others may overtake. */
void tps_message_faults_send (TpsFaultPlan *plan, TpsConnection *connection, const gchar *name,
                              TpsWriter *reply, TpsWorkerPool *workers);

G_END_DECLS
