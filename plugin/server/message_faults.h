/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Faults of messages, between a connection and its session: see runtime/base/fault.h. Inside
 * plugin/server only. */

#pragma once

#include "plugin/net/connection.h"
#include "runtime/base/fault.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef void (*TpsMessageEvent) (TpsConnection *connection, TpsMessage *message, gpointer data);

/* Takes over `message`, and gives it to `event` once, twice (the second time as a oneway message,
 * which has no reply), or not at all. On the connection's loop. */
void tps_message_faults_receive (TpsFaultPlan *plan, TpsConnection *connection, TpsMessage *message,
                                 TpsMessageEvent event, gpointer data);

/* In place of tps_connection_send(), for a reply of method `name`. A reply that is delayed is sent
 * by the timer thread of `workers`; others may overtake it. */
void tps_message_faults_send (TpsFaultPlan *plan, TpsConnection *connection, const gchar *name,
                              TpsWriter *reply, TpsWorkerPool *workers);

G_END_DECLS
