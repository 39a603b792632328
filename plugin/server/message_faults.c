/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/message_faults.h"

#include "runtime/base/sync.h"

/* ---- requests -------------------------------------------------------------------------------- */

/* A copy of the request without a reply. The bodies are shared. */
static TpsMessage *
dup_oneway (const TpsMessage *message)
{
  TpsMessage *copy = tps_message_new_like (message);

  copy->kind = TPS_MESSAGE_ONEWAY;
  copy->n_bytes_refused = message->n_bytes_refused;
  copy->pool_limit = message->pool_limit;
  g_byte_array_append (copy->head, message->head->data, message->head->len);
  for (guint i = 0; i < message->bodies->len; i++)
    {
      TpsBody body = g_array_index (message->bodies, TpsBody, i);

      if (body.buffer != NULL)
        tps_buffer_ref (body.buffer);
      g_array_append_val (copy->bodies, body);
    }
  return copy;
}

void
tps_message_faults_receive (TpsFaultPlan *plan, TpsConnection *connection, TpsMessage *message,
                            TpsMessageEvent event, gpointer data)
{
  TpsFault fault = tps_fault_plan_draw (plan, TPS_FAULT_AT_REQUEST, message->name);
  TpsMessage *copy = NULL;

  if (fault.action == TPS_FAULT_DROP || fault.action == TPS_FAULT_DISCONNECT)
    {
      tps_message_free (message);
      if (fault.action == TPS_FAULT_DISCONNECT)
        tps_connection_close (connection);
      return;
    }
  if (fault.action == TPS_FAULT_DUPLICATE)
    copy = dup_oneway (message);
  event (connection, message, data);
  if (copy != NULL)
    event (connection, copy, data);
}

/* ---- replies --------------------------------------------------------------------------------- */

typedef struct
{
  TpsConnection *connection;
  TpsWriter *reply;
} Delayed;

static void
send_delayed (gpointer data)
{
  g_autofree Delayed *delayed = data;

  tps_connection_send (delayed->connection, delayed->reply);
  tps_connection_unref (delayed->connection);
}

static void
send_later (TpsConnection *connection, TpsWriter *reply, TpsWorkerPool *workers, gint64 delay_ns)
{
  Delayed *delayed = g_new (Delayed, 1);

  *delayed = (Delayed) { tps_connection_ref (connection), reply };
  tps_worker_pool_add_timer (workers, tps_clock_now_ns () + delay_ns, send_delayed, delayed);
}

void
tps_message_faults_send (TpsFaultPlan *plan, TpsConnection *connection, const gchar *name,
                         TpsWriter *reply, TpsWorkerPool *workers)
{
  TpsFault fault = tps_fault_plan_draw (plan, TPS_FAULT_AT_REPLY, name);

  if (fault.action == TPS_FAULT_DELAY)
    send_later (connection, reply, workers, fault.delay_ns);
  else if (fault.action == TPS_FAULT_NONE)
    tps_connection_send (connection, reply);
  else
    tps_writer_free (reply);
  if (fault.action == TPS_FAULT_DISCONNECT)
    tps_connection_close (connection);
}
