/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client_call.h"

#include <string.h>

#include "plugin/wire/wire_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"

/* ---- calls in flight ------------------------------------------------------------------------ */

static guint
list_of (gint32 seqid)
{
  return (guint32) seqid % TPS_CALL_TABLE_LISTS;
}

void
tps_call_table_insert (TpsCallTable *table, TpsClientCall *call)
{
  TpsClientCall **list = &table->lists[list_of (call->seqid)];

  call->next_in_table = *list;
  *list = call;
  table->n_calls += call->bound == 0;
}

TpsClientCall *
tps_call_table_find (const TpsCallTable *table, gint32 seqid)
{
  TpsClientCall *call = table->lists[list_of (seqid)];

  while (call != NULL && call->seqid != seqid)
    call = call->next_in_table;
  return call;
}

void
tps_call_table_remove (TpsCallTable *table, TpsClientCall *call)
{
  TpsClientCall **link = &table->lists[list_of (call->seqid)];

  while (*link != NULL && *link != call)
    link = &(*link)->next_in_table;
  if (*link == NULL)
    return;
  *link = call->next_in_table;
  table->n_calls -= call->bound == 0;
}

TpsClientCall *
tps_call_table_get_next (const TpsCallTable *table, const TpsClientCall *call)
{
  guint list = 0;

  if (call != NULL && call->next_in_table != NULL)
    return call->next_in_table;
  if (call != NULL)
    list = list_of (call->seqid) + 1;
  while (list < TPS_CALL_TABLE_LISTS && table->lists[list] == NULL)
    list++;
  return list < TPS_CALL_TABLE_LISTS ? table->lists[list] : NULL;
}

/* ---- replies -------------------------------------------------------------------------------- */

#define APPLICATION_UNKNOWN_METHOD 1 /* TApplicationExceptionType of Thrift */

static void
read_service_error (TpsReader *in, GError **error)
{
  g_auto (TpsServiceError) failure = { 0 };

  tps_service_error_read (in, &failure);
  if (error == NULL)
    return;
  *error = g_error_new_literal (TPS_ERROR, tps_error_from_wire_code (failure.code),
                                failure.message != NULL ? failure.message
                                                        : "the peer's error has no message");
  if (failure.has_retry_after_ms && failure.retry_after_ms >= 0)
    tps_error_set_retry_after_ms (*error, failure.retry_after_ms);
}

static void
read_application_exception (TpsReader *in, GError **error)
{
  g_auto (TpsApplicationException) exception = { 0 };

  tps_application_exception_read (in, &exception);
  g_set_error (error, TPS_ERROR,
               exception.kind == APPLICATION_UNKNOWN_METHOD ? TPS_ERROR_NOT_FOUND
                                                            : TPS_ERROR_INTERNAL,
               "the peer cannot serve the call (application exception %d): %s", exception.kind,
               exception.message != NULL ? exception.message : "");
}

gboolean
tps_reply_has_name (const TpsMessage *reply, const gchar *sent_name)
{
  const gchar *method = strchr (sent_name, ':');

  return strcmp (reply->name, sent_name) == 0
         || (method != NULL && strcmp (reply->name, method + 1) == 0);
}

/* The result struct has one field: field 0 is the value, and field 1 is the exception of the
 * contract. The result struct of a void method is empty. */
gboolean
tps_reply_open (const TpsMessage *reply, TpsReader *in, TpsWireType *type, GError **error)
{
  gint16 id;

  tps_reader_init (in, reply);
  if (reply->n_bytes_refused > 0)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "no memory for %" G_GSIZE_FORMAT " bytes of the reply",
                     reply->n_bytes_refused);
  if (reply->kind == TPS_MESSAGE_EXCEPTION)
    {
      read_application_exception (in, error);
      return FALSE;
    }
  tps_reader_struct_begin (in);
  if (!tps_reader_field (in, &id, type))
    {
      *type = TPS_WIRE_STOP;
      return TRUE;
    }
  if (id == 0)
    return TRUE;
  if (id != tps_failure_field.id || *type != TPS_WIRE_STRUCT)
    return tps_fail (error, TPS_ERROR_INTERNAL,
                     "the result has field %d, which this client does not know", id);
  read_service_error (in, error);
  return FALSE;
}

gchar *
tps_reply_dup_transfer (const TpsMessage *reply)
{
  g_auto (TpsServiceError) failure = { 0 };
  TpsWireType type;
  TpsReader in;
  gint16 id;

  if (reply->kind != TPS_MESSAGE_REPLY || reply->n_bytes_refused > 0)
    return NULL;
  tps_reader_init (&in, reply);
  tps_reader_struct_begin (&in);
  if (!tps_reader_field (&in, &id, &type) || id != tps_failure_field.id || type != TPS_WIRE_STRUCT)
    return NULL;
  tps_service_error_read (&in, &failure);
  return g_steal_pointer (&failure.transfer);
}

/* ---- a call --------------------------------------------------------------------------------- */

static void
destroy (gpointer data)
{
  TpsClientCall *call = data;

  g_string_free (call->name, TRUE);
  g_free (call);
}

static TpsDepot depot = TPS_DEPOT_INIT (destroy);
static _Thread_local TpsMagazine magazine;

TpsClientCall *
tps_client_call_new (TpsClient *client, gint64 deadline_ns, gpointer user_data)
{
  TpsClientCall *call = tps_magazine_take (&magazine, &depot);
  GString *name = call != NULL ? g_string_truncate (call->name, 0) : g_string_new (NULL);

  if (call == NULL)
    call = g_new (TpsClientCall, 1);
  *call = (TpsClientCall) {
    .client = client,
    .name = name,
    .started_ns = tps_clock_now_ns (),
    .deadline_ns = deadline_ns,
    .user_data = user_data,
    .node = { .data = call },
  };
  tps_refcount_init (&call->holds);
  atomic_init (&call->sending, TPS_CLIENT_WRITER_UNSENT);
  atomic_init (&call->writer_released, FALSE);
  return call;
}

static void
call_free (TpsClientCall *call)
{
  g_clear_pointer (&call->reply, tps_message_free);
  g_clear_pointer (&call->lease, tps_sharing_unref);
  g_clear_error (&call->error);
  tps_magazine_put (&magazine, &depot, call);
}

static void
call_report (TpsClientCall *call)
{
  TpsReader result;
  TpsWireType type;

  if (call->delayed != NULL)
    call->delayed (call->user_data, call->error);
  else if (call->error == NULL && tps_reply_open (call->reply, &result, &type, &call->error))
    call->done (call->user_data, &result, type, NULL);
  else
    call->done (call->user_data, NULL, TPS_WIRE_STOP, call->error);
}

/* Ends the lease. A reply of any kind, including an error, gives the segments back to the client.
 * So does a call that was never sent. */
static void
call_end_lease (TpsClientCall *call)
{
  gboolean was_sent = atomic_load (&call->sending) == TPS_CLIENT_WRITER_GIVEN;

  if (call->lease != NULL)
    tps_segment_lease_end (call->lease, call->reply != NULL || !was_sent);
  g_clear_pointer (&call->lease, tps_sharing_unref);
}

void
tps_client_call_finish (gpointer user_data)
{
  TpsClientCall *call = user_data;
  TpsClient *client = call->client;

  /* An answered call has stayed in the table until its writer was freed. */
  if (call->answered)
    {
      tps_mutex_lock (&client->lock);
      tps_call_table_remove (&client->calls, call);
      tps_mutex_unlock (&client->lock);
      call->answered = FALSE;
    }
  call_end_lease (call);
  if (call->goes_on != NULL && call->goes_on (call))
    return;
  call_report (call);
  call_free (call);
  tps_mutex_lock (&client->lock);
  if (--client->n_calls == 0)
    tps_cond_broadcast (&client->idle);
  tps_mutex_unlock (&client->lock);
}

void
tps_client_call_decided (TpsClientCall *call)
{
  if (!tps_refcount_dec (&call->holds))
    return;
  if (tps_loop_is_current (call->client->loop))
    tps_client_call_finish (call);
  else
    tps_loop_post (call->client->loop, tps_client_call_finish, call);
}

void
tps_client_call_fail (TpsClientCall *call, GError *error_taken)
{
  call->error = error_taken;
  tps_client_call_decided (call);
}

/* ---- the message ---------------------------------------------------------------------------- */

void
tps_client_call_set_name (TpsClientCall *call, const gchar *service, const gchar *method)
{
  g_string_append (call->name, service);
  g_string_append_c (call->name, ':');
  g_string_append (call->name, method);
}

static void
write_header (TpsClientCall *call)
{
  TpsClient *client = call->client;
  gchar traceparent[TPS_TRACEPARENT_TEXT];

  if (!atomic_load_explicit (&client->is_traced, memory_order_relaxed))
    return;
  tps_mutex_lock (&client->lock);
  tps_trace_context_format (&client->context, traceparent);
  tps_mutex_unlock (&client->lock);
  tps_writer_set_header (call->writer, call->seqid);
  tps_writer_add_header (call->writer, TPS_TRACEPARENT, traceparent);
}

void
tps_client_call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data)
{
  call->writer = tps_writer_new (call->is_large ? TPS_PROTOCOL_BINARY : call->client->protocol,
                                 TRUE);
  tps_writer_set_sharing (call->writer, call->lease);
  write_header (call);
  tps_writer_message_begin (call->writer, call->name->str, TPS_MESSAGE_CALL, call->seqid);
  tps_writer_struct_begin (call->writer);
  if (write != NULL)
    write (call->writer, write_data);
  tps_writer_struct_end (call->writer);
  if (call->lease != NULL)
    tps_segment_lease_written (call->lease);
}

/* Called when the writer has been freed. The connection may free it with a lock held, so the call
 * must not finish inside this function. */
static void
call_writer_released (gpointer user_data)
{
  TpsClientCall *call = user_data;

  atomic_store (&call->writer_released, TRUE);
  if (tps_refcount_dec (&call->holds))
    tps_loop_post (call->client->loop, tps_client_call_finish, call);
}

void
tps_client_call_written (TpsClientCall *call)
{
  /* The second reference, which call_writer_released() drops. */
  tps_refcount_inc (&call->holds);
  tps_writer_set_released (call->writer, call_writer_released, call);
}

void
tps_client_call_unwrite (TpsClientCall *call)
{
  g_clear_pointer (&call->writer, tps_writer_free);
  atomic_store (&call->writer_released, FALSE);
  if (call->lease != NULL)
    tps_segment_lease_end (call->lease, TRUE);
  g_clear_pointer (&call->lease, tps_sharing_unref);
}

/* ---- sending -------------------------------------------------------------------------------- */

static gboolean
call_claim_writer (TpsClientCall *call, int as)
{
  int unsent = TPS_CLIENT_WRITER_UNSENT;

  return atomic_compare_exchange_strong (&call->sending, &unsent, as);
}

void
tps_client_call_send (TpsClientCall *call, TpsConnection *connection)
{
  TpsWriter *writer = call->writer;

  if (!call_claim_writer (call, TPS_CLIENT_WRITER_GIVEN))
    {
      tps_writer_free (writer);
      return;
    }
  /* The writer of a background call borrows nothing, so the call need not wait for its release.
   * Later replies depend on the outcome of the call, so the outcome must be final when its own
   * reply has been processed. */
  if (call->bound != 0)
    {
      tps_writer_set_released (writer, NULL, NULL);
      call_writer_released (call);
    }
  tps_connection_send (connection, writer);
}

TpsWriter *
tps_client_call_forget (TpsClientCall *call)
{
  TpsWriter *orphan = NULL;

  if (call->queue != NULL)
    {
      g_queue_unlink (call->queue, &call->node);
      call->queue = NULL;
      orphan = call->writer;
    }
  if (call->writer != NULL)
    call_claim_writer (call, TPS_CLIENT_WRITER_DROPPED);
  tps_call_table_remove (&call->client->calls, call);
  return orphan;
}

gboolean
tps_client_call_is_being_sent (const TpsClientCall *call)
{
  return call->writer != NULL && atomic_load (&call->sending) == TPS_CLIENT_WRITER_GIVEN
         && !atomic_load (&call->writer_released);
}
