/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/top/request.h"

#include "runtime/base/error.h"

#define PIECE_BYTES 16384 /* read at once from the body of a reply */

struct TpsRequest
{
  const TpsRequestOps *ops; /* NULL = cancelled */
  gpointer user_data;
  SoupMessage *message;
  GInputStream *body;
  GCancellable *cancellable;
  gchar piece[PIECE_BYTES];
};

static void
request_free (TpsRequest *request)
{
  g_clear_object (&request->body);
  g_clear_object (&request->message);
  g_object_unref (request->cancellable);
  g_free (request);
}

static void
finish (TpsRequest *request, const GError *error)
{
  if (request->ops != NULL)
    request->ops->end (request->user_data, error);
  request_free (request);
}

static void
fail (TpsRequest *request, TpsErrorCode code, const gchar *message)
{
  g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, code, message);

  finish (request, error);
}

static void
on_bytes (GObject *source, GAsyncResult *result, gpointer data)
{
  TpsRequest *request = data;
  g_autoptr (GError) error = NULL;
  gssize n = g_input_stream_read_finish (request->body, result, &error);

  if (n < 0)
    fail (request, TPS_ERROR_CONNECTION_LOST, error->message);
  else if (n == 0 || request->ops == NULL)
    finish (request, NULL);
  else if (!request->ops->take (request->user_data, request->piece, (gsize) n, &error))
    finish (request, error);
  else
    g_input_stream_read_async (request->body, request->piece, sizeof request->piece,
                               G_PRIORITY_DEFAULT, request->cancellable, on_bytes, request);
}

static void
refuse_status (TpsRequest *request, guint status)
{
  g_autofree gchar *text = g_strdup_printf ("status %u: %s", status,
                                            soup_status_get_phrase (status));

  fail (request,
        status == SOUP_STATUS_UNAUTHORIZED || status == SOUP_STATUS_FORBIDDEN
            ? TPS_ERROR_PERMISSION_DENIED
            : TPS_ERROR_UNAVAILABLE,
        text);
}

static void
on_head (GObject *session, GAsyncResult *result, gpointer data)
{
  TpsRequest *request = data;
  g_autoptr (GError) error = NULL;
  guint status;

  request->body = soup_session_send_finish (SOUP_SESSION (session), result, &error);
  if (request->body == NULL)
    {
      fail (request, TPS_ERROR_CONNECTION_LOST, error->message);
      return;
    }
  status = soup_message_get_status (request->message);
  if (status != SOUP_STATUS_OK)
    refuse_status (request, status);
  else
    g_input_stream_read_async (request->body, request->piece, sizeof request->piece,
                               G_PRIORITY_DEFAULT, request->cancellable, on_bytes, request);
}

TpsRequest *
tps_request_begin (SoupSession *session, const gchar *url, const gchar *token,
                   const TpsRequestOps *ops, gpointer user_data)
{
  TpsRequest *request = g_new0 (TpsRequest, 1);

  request->ops = ops;
  request->user_data = user_data;
  request->cancellable = g_cancellable_new ();
  request->message = soup_message_new (SOUP_METHOD_GET, url);
  if (token != NULL)
    {
      g_autofree gchar *bearer = g_strconcat ("Bearer ", token, NULL);

      soup_message_headers_replace (soup_message_get_request_headers (request->message),
                                    "Authorization", bearer);
    }
  soup_session_send_async (session, request->message, G_PRIORITY_DEFAULT, request->cancellable,
                           on_head, request);
  return request;
}

void
tps_request_cancel (TpsRequest *request)
{
  request->ops = NULL;
  g_cancellable_cancel (request->cancellable);
}
