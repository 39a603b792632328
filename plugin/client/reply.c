/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/reply.h"

#include <string.h>

#include "plugin/wire/wire_failure.h"
#include "runtime/base/error.h"

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
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no memory for %" G_GSIZE_FORMAT " bytes of the reply", reply->n_bytes_refused);
      return FALSE;
    }
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
  if (id == tps_failure_field.id && *type == TPS_WIRE_STRUCT)
    read_service_error (in, error);
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "the result has field %d, which this client does not know", id);
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
