/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/http_request.h"

#include <string.h>

#include "plugin/http/http_guard.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"

#define JSON "application/json"

/* A reply of up to this size is not charged, so that health is reported even if all memory is
 * charged. */
#define FREE_REPLY_BYTES 4096

static TpsTraceEvent http_denied = TPS_TRACE_EVENT ("http_denied", TPS_TRACE_WARNING);

struct TpsHttpRequest
{
  SoupServerMessage *message;
  TpsHttpConnection *connection;
  GHashTable *query; /* NULL = none */
  gboolean is_answered;
};

static const gchar *
get_header (SoupServerMessage *message, const gchar *name)
{
  return soup_message_headers_get_list (soup_server_message_get_request_headers (message), name);
}

static void
set_header (SoupServerMessage *message, const gchar *name, const gchar *value)
{
  soup_message_headers_replace (soup_server_message_get_response_headers (message), name, value);
}

/* ---- functions for handlers ----------------------------------------------------------------- */

const gchar *
tps_http_request_get_parameter (TpsHttpRequest *request, const gchar *name)
{
  return request->query != NULL ? g_hash_table_lookup (request->query, name) : NULL;
}

gboolean
tps_http_request_get_number (TpsHttpRequest *request, const gchar *name, guint64 min, guint64 max,
                             guint64 initial, guint64 *number)
{
  const gchar *text = tps_http_request_get_parameter (request, name);

  *number = initial;
  if (text == NULL || g_ascii_string_to_unsigned (text, 10, min, max, number, NULL))
    return TRUE;
  tps_http_request_fail (request, SOUP_STATUS_BAD_REQUEST,
                         "%s: expected a number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT,
                         name, min, max);
  return FALSE;
}

const gchar *
tps_http_request_get_header (TpsHttpRequest *request, const gchar *name)
{
  return get_header (request->message, name);
}

SoupServerMessage *
tps_http_request_get_message (TpsHttpRequest *request)
{
  return request->message;
}

void
tps_http_request_set_answered (TpsHttpRequest *request)
{
  request->is_answered = TRUE;
}

static void
set_status (TpsHttpRequest *request, guint status)
{
  g_assert (!request->is_answered);
  request->is_answered = TRUE;
  soup_server_message_set_status (request->message, status, NULL);
}

void
tps_http_request_reply (TpsHttpRequest *request, guint status, const gchar *content_type,
                        GString *body)
{
  gsize n_bytes = body->len;
  g_autoptr (GError) error = NULL;

  if (body->allocated_len > FREE_REPLY_BYTES
      && !tps_charge_add (&request->connection->charge, body->allocated_len, &error))
    {
      g_string_free (body, TRUE);
      set_header (request->message, "Retry-After", "1");
      set_status (request, SOUP_STATUS_SERVICE_UNAVAILABLE);
      return;
    }
  set_status (request, status);
  soup_server_message_set_response (request->message, content_type, SOUP_MEMORY_TAKE,
                                    g_string_free (body, FALSE), n_bytes);
}

void
tps_http_json_begin (TpsJsonWriter *json)
{
  tps_json_writer_init (json);
  tps_json_open (json, NULL, '{');
}

void
tps_http_request_reply_json (TpsHttpRequest *request, guint status, TpsJsonWriter *json)
{
  GString *body;

  tps_json_close (json, '}');
  body = tps_json_writer_take (json);
  g_string_append_c (body, '\n');
  tps_http_request_reply (request, status, JSON, body);
}

void
tps_http_request_reply_file (TpsHttpRequest *request, const gchar *content_type, const gchar *etag,
                             gconstpointer bytes, gsize n_bytes)
{
  const gchar *known = get_header (request->message, "If-None-Match");

  set_header (request->message, "ETag", etag);
  set_header (request->message, "Cache-Control", "no-cache");
  if (known != NULL && strstr (known, etag) != NULL)
    {
      set_status (request, SOUP_STATUS_NOT_MODIFIED);
      return;
    }
  set_status (request, SOUP_STATUS_OK);
  soup_server_message_set_response (request->message, content_type, SOUP_MEMORY_STATIC, bytes,
                                    n_bytes);
}

void
tps_http_request_fail (TpsHttpRequest *request, guint status, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  TpsJsonWriter json;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  tps_http_json_begin (&json);
  tps_json_open (&json, "error", '{');
  tps_json_add_uint (&json, "status", status);
  tps_json_add_text (&json, "message", text);
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, status, &json);
}

/* ---- checks --------------------------------------------------------------------------------- */

/* Checks the name by which the client reaches this server. The request line may contain another
 * name, in an absolute URL, although browsers do not send one. HTTP/1.0 does not require the header
 * Host. */
static gboolean
check_host (TpsHttpRequest *request, const TpsHttpRules *rules)
{
  const gchar *header = get_header (request->message, "Host");
  const gchar *host = g_uri_get_host (soup_server_message_get_uri (request->message));
  gboolean is_numeric = host != NULL && g_hostname_is_ip_address (host);

  if ((header == NULL || tps_http_guard_accepts_host (header, rules->names))
      && (host == NULL || is_numeric || tps_http_guard_accepts_host (host, rules->names)))
    return TRUE;
  tps_http_request_fail (request, SOUP_STATUS_MISDIRECTED_REQUEST,
                         "Host: not a name of this server; expected its address, localhost, or a "
                         "name of --http-host");
  return FALSE;
}

/* Checks the rules for the owner of the token in the request, or for the anonymous principal if
 * there is no token. In rules, the path /tables is the method "Http:tables". A refusal sets
 * `*principal` to the name of the principal, which the caller owns. */
static gboolean
ask_rules (TpsHttpRequest *request, TpsAccess *access, const gchar *path, TpsRight right,
           gchar **principal, GError **error)
{
  const gchar *token = tps_http_guard_find_token (get_header (request->message, "Authorization"));
  g_autofree gchar *name = g_strconcat ("Http:", path + (*path == '/'), NULL);
  const TpsGuardedMethod method = { name, right, TPS_METHOD_NO_ID };
  TpsIdentity identity;
  gboolean ok;

  tps_identity_init (&identity, access);
  ok = token == NULL || tps_identity_authenticate (&identity, token, error);
  if (ok)
    {
      g_autoptr (TpsGrant) grant = tps_identity_get_grant (&identity);

      ok = tps_grant_check_method (grant, &method, name, error);
    }
  if (!ok)
    *principal = g_strdup (tps_principal_get_name (tps_identity_get_principal (&identity)));
  tps_identity_clear (&identity);
  return ok;
}

/* Returns TRUE if the peer may use the path. Without rules, every user of this machine has all
 * rights. */
static gboolean
authorize (TpsHttpRequest *request, const TpsHttpRules *rules, const gchar *path, TpsRight right,
           gchar **principal, GError **error)
{
  if (right == TPS_RIGHT_OPEN)
    return TRUE;
  if (!rules->serves_others && !request->connection->is_local)
    return tps_fail (error, TPS_ERROR_PERMISSION_DENIED, "the peer is on another machine");
  return rules->access == NULL || ask_rules (request, rules->access, path, right, principal, error);
}

static gboolean
check_right (TpsHttpRequest *request, const TpsHttpRules *rules, const gchar *path, TpsRight right)
{
  g_autofree gchar *principal = NULL;
  g_autoptr (GError) error = NULL;

  if (authorize (request, rules, path, right, &principal, &error))
    return TRUE;
  tps_trace (&http_denied, tps_field_text ("principal", principal),
             tps_field_text ("peer", request->connection->peer), tps_field_text ("path", path),
             tps_field_text ("reason", error->message));
  if (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAUTHENTICATED))
    {
      set_header (request->message, "WWW-Authenticate", "Bearer");
      tps_http_request_fail (request, SOUP_STATUS_UNAUTHORIZED,
                             "Authorization: expected a valid token, as \"Bearer TOKEN\"");
    }
  else
    tps_http_request_fail (request, SOUP_STATUS_FORBIDDEN, "permission denied");
  return FALSE;
}

static const TpsHttpEndpoint *
find_endpoint (const TpsHttpRules *rules, const gchar *path)
{
  for (guint i = 0; i < rules->endpoints->len; i++)
    {
      const TpsHttpEndpoint *endpoint = &g_array_index (rules->endpoints, TpsHttpEndpoint, i);

      if (g_str_equal (endpoint->path, path))
        return endpoint;
    }
  return NULL;
}

static gboolean
check_method (TpsHttpRequest *request, const TpsHttpEndpoint *endpoint)
{
  const gchar *method = soup_server_message_get_method (request->message);

  if (g_str_equal (method, "GET") || g_str_equal (method, "HEAD"))
    return TRUE;
  set_header (request->message, "Allow", "GET, HEAD");
  tps_http_request_fail (request, SOUP_STATUS_METHOD_NOT_ALLOWED, "%s: expected GET or HEAD",
                         endpoint->path);
  return FALSE;
}

static void
answer (TpsHttpRequest *request, const TpsHttpRules *rules, const gchar *path)
{
  const TpsHttpEndpoint *endpoint = find_endpoint (rules, path);

  if (!check_host (request, rules)
      || !check_right (request, rules, path, endpoint != NULL ? endpoint->right : TPS_RIGHT_ADMIN))
    return;
  if (endpoint == NULL)
    tps_http_request_fail (request, SOUP_STATUS_NOT_FOUND, "there is no such path: see /");
  else if (check_method (request, endpoint))
    endpoint->handle (request, endpoint->user_data);
  if (!request->is_answered)
    tps_http_request_fail (request, SOUP_STATUS_INTERNAL_SERVER_ERROR, "the path sent no response");
}

/* The right is checked even if the path does not exist, so that callers without it cannot learn
 * which paths exist. Ranges are ignored, because libsoup would build a part of the response for
 * each range that a peer names. */
void
tps_http_request_serve (const TpsHttpRules *rules, SoupServerMessage *message, const gchar *path,
                        GHashTable *query)
{
  TpsHttpRequest request = { .message = message,
                             .connection = tps_http_connection_of (message),
                             .query = query };

  soup_message_headers_remove (soup_server_message_get_request_headers (message), "Range");
  set_header (message, "Connection", "close");
  set_header (message, "Cache-Control", "no-store");
  set_header (message, "Content-Security-Policy",
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
              "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  set_header (message, "Cross-Origin-Resource-Policy", "same-origin");
  set_header (message, "Referrer-Policy", "no-referrer");
  set_header (message, "X-Content-Type-Options", "nosniff");
  set_header (message, "X-Frame-Options", "DENY");
  answer (&request, rules, path);
  tps_http_connection_expect_taken (request.connection);
}
