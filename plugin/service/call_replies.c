/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "plugin/service/call_private.h"
#include "plugin/wire/contract.h"
#include "plugin/wire/wire_failure.h"
#include "runtime/base/error.h"

/* Replies up to this size are sent even if their connection has too many unread replies. Otherwise,
 * a command that has had its effect would be answered with a refusal. */
#define MAX_SMALL_BYTES 4096

const gchar *
tps_call_get_method_name (const TpsCall *call)
{
  const gchar *colon = strchr (call->message->name, ':');

  return colon != NULL ? colon + 1 : call->message->name;
}

static TpsWriter *
begin_reply (const TpsCall *call, TpsMessageKind kind)
{
  const TpsMessage *message = call->message;
  TpsWriter *out = tps_writer_new (message->protocol, message->framed);

  if (message->has_header)
    tps_writer_set_header (out, message->header_seqid);
  tps_writer_message_begin (out, tps_call_get_method_name (call), kind, message->seqid);
  tps_writer_struct_begin (out);
  return out;
}

/* Ends the reply. Returns FALSE with an error if the reply is larger than a message can be. The
 * reply to a message that came in a transfer may be larger, because it is fetched in a transfer. */
static gboolean
end_reply (const TpsCall *call, TpsWriter *out, GError **error)
{
  tps_writer_struct_end (out);
  return call->message->transferred ? tps_writer_message_end_transferred (out, error)
                                    : tps_writer_message_end (out, error);
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Ends a reply with an error. Errors must be sent even if no memory is free, so the budget is
 * charged only as far as it has room. If a peer does not read errors, its connection is not read
 * (plugin/net). */
static TpsWriter *
end_error (TpsCall *call, TpsWriter *out)
{
  end_reply (call, out, NULL);
  tps_writer_set_budget (out, tps_call_get_reply_budget (call));
  return out;
}

TpsWriter *
tps_call_write_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text)
{
  TpsApplicationException exception = { (gchar *) (gsize) text, (gint32) kind };
  TpsWriter *out = begin_reply (call, TPS_MESSAGE_EXCEPTION);

  tps_application_exception_write (out, &exception);
  return end_error (call, out);
}

static TpsWriter *
write_foreign_error (TpsCall *call, const GError *failure)
{
  TpsExceptionKind kind = g_error_matches (failure, TPS_ERROR, TPS_ERROR_PROTOCOL)
                              ? TPS_EXCEPTION_PROTOCOL_ERROR
                              : TPS_EXCEPTION_INTERNAL_ERROR;
  gint code = failure->domain == TPS_ERROR ? failure->code : TPS_ERROR_INTERNAL;
  g_autofree gchar *text = g_strdup_printf ("%s: %s", tps_error_code_name (code), failure->message);

  return tps_call_write_exception (call, kind, text);
}

/* Writes a ServiceError. `transfer` is the name under which the client can fetch the reply; NULL =
 * there is none. */
static TpsWriter *
write_service_error (TpsCall *call, const GError *failure, const gchar *transfer)
{
  TpsWriter *out = begin_reply (call, TPS_MESSAGE_REPLY);
  gint retry_after_ms = failure->domain == TPS_ERROR ? tps_error_get_retry_after_ms (failure) : -1;
  TpsServiceError value = {
    .code = tps_error_to_wire_code (failure),
    .message = failure->message,
    .has_retry_after_ms = retry_after_ms >= 0,
    .retry_after_ms = retry_after_ms,
    .transfer = (gchar *) (gsize) transfer,
  };

  tps_field_write (&tps_failure_field, out, &value);
  return end_error (call, out);
}

/* Returns TRUE if the contract has the service in `name`, or the method if `name` contains no
 * service. */
static gboolean
is_of_contract (const gchar *name)
{
  const gchar *colon = strchr (name, ':');
  gsize n_bytes = colon != NULL ? (gsize) (colon - name) : 0;

  for (const TpsRpc *const *rpc = tps_contract; *rpc != NULL; rpc++)
    if (colon != NULL
            ? strlen ((*rpc)->service) == n_bytes && memcmp ((*rpc)->service, name, n_bytes) == 0
            : strcmp ((*rpc)->name, name) == 0)
      return TRUE;
  return FALSE;
}

/* A failure must not reveal to callers without rights whether a method of the contract exists. */
TpsWriter *
tps_call_write_failure (TpsCall *call, const GError *failure)
{
  return call->rpc != NULL || is_of_contract (call->message->name)
             ? write_service_error (call, failure, NULL)
             : write_foreign_error (call, failure);
}

TpsWriter *
tps_call_write_refusal (TpsCall *call, const GError *failure)
{
  return is_of_contract (call->message->name) ? write_service_error (call, failure, NULL)
                                              : write_foreign_error (call, failure);
}

/* ---- results -------------------------------------------------------------------------------- */

gboolean
tps_call_has_room (TpsCall *call, TpsWriter *out)
{
  guint n_pieces;
  gsize n_bytes;

  tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  return n_bytes <= MAX_SMALL_BYTES || call->ops->has_room == NULL
         || call->ops->has_room (call->carried, n_bytes);
}

TpsWriter *
tps_call_refuse_unread (TpsCall *call, TpsWriter *out)
{
  g_autoptr (GError)
      error = g_error_new_literal (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                                   "no room for the reply: the client must first read the earlier "
                                   "replies on this connection");

  tps_error_set_retry_after_ms (error, TPS_RETRY_AFTER_MS);
  tps_writer_free (out);
  tps_call_record_error (call, error);
  return tps_call_write_failure (call, error);
}

/* Returns the shared memory for large tensors of the reply; NULL = they are sent in the reply. The
 * caller owns it. */
static TpsSharing *
find_place (TpsCall *call)
{
  TpsSegmentRegistry *segments = tps_call_get_segments (call, NULL);

  if (call->place != NULL)
    return g_steal_pointer (&call->place);
  return segments != NULL ? tps_segment_registry_answer (segments) : NULL;
}

TpsBuffer *
tps_call_reserve (TpsCall *call, TpsDevice *device, gsize n_bytes)
{
  g_autoptr (TpsSharing) place = call->place == NULL ? find_place (call) : NULL;
  TpsBuffer *buffer = place != NULL ? tps_segment_registry_reserve (place, device, n_bytes) : NULL;

  if (buffer != NULL)
    call->place = g_steal_pointer (&place);
  return buffer;
}

/* Keeps a reply that is too large for a frame. Returns the error `too_long` with the name under
 * which the client can fetch the reply. Takes ownership of `out`. */
static TpsWriter *
keep_reply (TpsCall *call, TpsWriter *out, const GError *too_long)
{
  const TpsService *keeper = call->context->keeper;
  g_autoptr (TpsWriter) reply = out;
  g_autofree gchar *name = NULL;
  g_autoptr (GError) error = NULL;

  if (keeper == NULL)
    {
      tps_call_record_error (call, too_long);
      return write_service_error (call, too_long, NULL);
    }
  if (!tps_writer_message_end_transferred (reply, &error)
      || !keeper->keep_answer (keeper->object, call, reply, &name, &error))
    {
      tps_call_record_error (call, error);
      return write_service_error (call, error, NULL);
    }
  g_steal_pointer (&reply); /* the keeper owns it now */
  return write_service_error (call, too_long, name);
}

/* Returns the reply, which the caller owns, even with an error. Errors: the reply is larger than a
 * message can be, or there is no memory for it. */
static TpsWriter *
write_to (TpsCall *call, TpsSharing *place, TpsWriteResult write, gconstpointer user_data,
          GError **error)
{
  TpsWriter *out = begin_reply (call, TPS_MESSAGE_REPLY);

  tps_writer_set_budget (out, tps_call_get_reply_budget (call));
  tps_writer_set_sharing (out, place);
  if (write != NULL)
    write (out, user_data);
  end_reply (call, out, error);
  return out;
}

TpsWriter *
tps_call_write_result (TpsCall *call, TpsWriteResult write, gconstpointer user_data)
{
  g_autoptr (TpsSharing) place = write != NULL ? find_place (call) : NULL;
  g_autoptr (GError) too_long = NULL;
  TpsWriter *out = write_to (call, place, write, user_data, &too_long);

  if (too_long == NULL)
    {
      if (!tps_call_has_room (call, out))
        return tps_call_refuse_unread (call, out);
      if (place != NULL)
        tps_segment_registry_commit (place);
      return out;
    }
  /* A reply that is kept must not occupy shared memory that later replies need. */
  if (place != NULL)
    {
      g_clear_error (&too_long);
      tps_writer_free (out);
      g_clear_pointer (&place, tps_sharing_unref);
      out = write_to (call, NULL, write, user_data, &too_long);
    }
  return too_long == NULL ? out : keep_reply (call, out, too_long);
}
