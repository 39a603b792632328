/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/message_faults.h"

#include <string.h>

#include "runtime/base/growing_array.h"
#include "runtime/base/sync.h"

/* ---- requests -------------------------------------------------------------------------------- */

/* Copies the head, and adds references to the bodies. Returns FALSE if there is no memory. */
static gboolean
copy_arguments (TpsMessage *copy, const TpsMessage *message)
{
  if (!tps_byte_array_try_set_size (&copy->head, message->head->len))
    return FALSE;
  if (message->head->len > 0)
    memcpy (copy->head->data, message->head->data, message->head->len);
  for (guint i = 0; i < message->n_bodies; i++)
    {
      if (!tps_message_add_body (copy, &message->bodies[i], NULL))
        return FALSE;
      tps_buffer_ref (message->bodies[i].buffer);
    }
  return TRUE;
}

/* Returns a copy of the request that has no reply, or NULL if there is no memory. The caller owns
 * it. */
static TpsMessage *
dup_oneway (const TpsMessage *message)
{
  TpsMessage *copy = tps_message_new_like (message);

  copy->kind = TPS_MESSAGE_ONEWAY;
  copy->n_bytes_bodies = message->n_bytes_bodies;
  copy->n_bytes_refused = message->n_bytes_refused;
  copy->n_bytes_dropped = message->n_bytes_dropped;
  copy->pool_limit = message->pool_limit;
  if (copy_arguments (copy, message))
    return copy;
  tps_message_free (copy);
  return NULL;
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
