/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/reply.h"

#include <string.h>

#include "plugin/wire/fields.h"
#include "runtime/base/error.h"

#define MAX_PEER_TEXT_BYTES 4096 /* of a peer's error message: enough for any of ours */
#define APPLICATION_UNKNOWN_METHOD 1

/* A peer's text for a GError: valid UTF-8 and not endless, whatever was sent. */
static gchar *
peer_text (TpsBytesView text)
{
  gsize n_bytes = MIN (text.n_bytes, MAX_PEER_TEXT_BYTES);

  return n_bytes == 0 ? g_strdup ("")
                      : g_utf8_make_valid ((const gchar *) text.data, (gssize) n_bytes);
}

static void
read_service_error (TpsReader *in, GError **error)
{
  g_autofree gchar *message = NULL;
  gint32 code = 0, retry_after_ms = -1;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    if (id == 1 && type == TPS_WIRE_I32)
      code = tps_reader_i32 (in);
    else if (id == 2 && type == TPS_WIRE_BINARY && message == NULL)
      message = peer_text (tps_reader_binary (in));
    else if (id == 3 && type == TPS_WIRE_I32)
      retry_after_ms = tps_reader_i32 (in);
    else
      tps_reader_skip (in, type);
  tps_reader_struct_end (in);
  if (error == NULL)
    return;
  *error = g_error_new_literal (TPS_ERROR, tps_error_from_wire_code (code),
                                message != NULL ? message : "the peer's error has no message");
  if (retry_after_ms >= 0)
    tps_error_set_retry_after_ms (*error, retry_after_ms);
}

static void
read_application_exception (TpsReader *in, GError **error)
{
  g_autofree gchar *message = NULL;
  gint32 kind = 0;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    if (id == 1 && type == TPS_WIRE_BINARY && message == NULL)
      message = peer_text (tps_reader_binary (in));
    else if (id == 2 && type == TPS_WIRE_I32)
      kind = tps_reader_i32 (in);
    else
      tps_reader_skip (in, type);
  tps_reader_struct_end (in);
  g_set_error (error, TPS_ERROR,
               kind == APPLICATION_UNKNOWN_METHOD ? TPS_ERROR_NOT_FOUND : TPS_ERROR_INTERNAL,
               "the peer cannot serve the call (application exception %d): %s", kind,
               message != NULL ? message : "");
}

gboolean
tps_reply_has_name (const TpsMessage *reply, const gchar *sent_name)
{
  const gchar *method = strchr (sent_name, ':');

  return strcmp (reply->name, sent_name) == 0
         || (method != NULL && strcmp (reply->name, method + 1) == 0);
}

/* The result struct holds one field: 0 is the value, 1 the contract's exception; none is void. */
gboolean
tps_reply_open (const TpsMessage *reply, TpsReader *in, TpsWireType *type, GError **error)
{
  gint16 id;

  tps_reader_init (in, reply);
  if (reply->n_bytes_refused > 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no memory for %" G_GSIZE_FORMAT " bytes of the answer", reply->n_bytes_refused);
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
  if (id == 1 && *type == TPS_WIRE_STRUCT)
    read_service_error (in, error);
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "the result has field %d, which this client does not know", id);
  return FALSE;
}

static gchar *
read_transfer (TpsReader *in)
{
  gchar *transfer = NULL;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    if (id == 4 && type == TPS_WIRE_BINARY && transfer == NULL)
      {
        TpsBytesView name = tps_reader_binary (in);

        if (tps_name_is_valid ((const gchar *) name.data, name.n_bytes))
          transfer = g_strndup ((const gchar *) name.data, name.n_bytes);
      }
    else
      tps_reader_skip (in, type);
  tps_reader_struct_end (in);
  return transfer;
}

gchar *
tps_reply_dup_transfer (const TpsMessage *reply)
{
  TpsWireType type;
  TpsReader in;
  gint16 id;

  if (reply->kind != TPS_MESSAGE_REPLY || reply->n_bytes_refused > 0)
    return NULL;
  tps_reader_init (&in, reply);
  tps_reader_struct_begin (&in);
  if (!tps_reader_field (&in, &id, &type) || id != 1 || type != TPS_WIRE_STRUCT)
    return NULL;
  return read_transfer (&in);
}
