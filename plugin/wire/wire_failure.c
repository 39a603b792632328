/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_failure.h"

#define MAX_TEXT_BYTES 4096 /* longer than any text of a server */

/* ---- texts of a peer ------------------------------------------------------------------------ */

static gboolean
read_text (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  TpsBytesView view = tps_reader_binary (in);
  /* A text that is too long is cut off, because a bad text must not hide the failure. */
  gsize n_bytes = MIN (view.n_bytes, MAX_TEXT_BYTES);
  gchar **text = TPS_FIELD_VALUE (field, object);

  g_free (*text);
  *text = n_bytes == 0 ? g_strdup ("")
                       : g_utf8_make_valid ((const gchar *) view.data, (gssize) n_bytes);
  return TRUE;
}

static void
write_text (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_kind_string.write (out, field, object);
}

static const TpsValueKind text_kind = { TPS_WIRE_BINARY, "string", read_text, write_text };

/* ---- ServiceError --------------------------------------------------------------------------- */

/* Each number is the TpsErrorCode minus TPS_ERROR_WIRE_BASE. */
static const TpsEnumValue codes[] = {
  { "INVALID_ARGUMENT", 1 },
  { "NOT_FOUND", 2 },
  { "ALREADY_EXISTS", 3 },
  { "STALE", 4 },
  { "DUPLICATE", 5 },
  { "DEADLINE_EXCEEDED", 6 },
  { "RESOURCE_EXHAUSTED", 7 },
  { "UNAVAILABLE", 8 },
  { "ABORTED", 9 },
  { "UNAUTHENTICATED", 10 },
  { "PERMISSION_DENIED", 11 },
  { "INTERNAL", 12 },
  { NULL },
};

const TpsEnum tps_error_code_enum = { "ErrorCode", codes };

static const TpsField failure_fields[] = {
  { "code", 1, TPS_FIELD_DEFAULT, &tps_kind_open_enum, &tps_error_code_enum,
    G_STRUCT_OFFSET (TpsServiceError, code) },
  { "message", 2, TPS_FIELD_REQUIRED, &text_kind, NULL,
    G_STRUCT_OFFSET (TpsServiceError, message) },
  { "retry_after_ms", 3, TPS_FIELD_OPTIONAL, &tps_kind_i32, NULL,
    G_STRUCT_OFFSET (TpsServiceError, retry_after_ms),
    G_STRUCT_OFFSET (TpsServiceError, has_retry_after_ms) },
  { "transfer", 4, TPS_FIELD_OPTIONAL, &tps_kind_name, NULL,
    G_STRUCT_OFFSET (TpsServiceError, transfer) },
  { NULL },
};

static gboolean
read_failure (TpsReader *in, const TpsFieldPath *path, gpointer failure, GError **error)
{
  tps_fields_read_leniently (failure_fields, in, failure);
  return TRUE;
}

static const TpsStruct failure_struct = { "ServiceError", failure_fields, read_failure };

const TpsField tps_failure_field = { "failure", 1, .kind = &tps_kind_struct,
                                     .of = &failure_struct };

void
tps_service_error_read (TpsReader *in, TpsServiceError *failure)
{
  tps_fields_read_leniently (failure_fields, in, failure);
}

void
tps_service_error_clear (TpsServiceError *failure)
{
  g_clear_pointer (&failure->message, g_free);
  g_clear_pointer (&failure->transfer, g_free);
}

/* ---- TApplicationException ------------------------------------------------------------------ */

static const TpsField exception_fields[] = {
  { "message", 1, TPS_FIELD_DEFAULT, &text_kind, NULL,
    G_STRUCT_OFFSET (TpsApplicationException, message) },
  { "type", 2, TPS_FIELD_DEFAULT, &tps_kind_i32, NULL,
    G_STRUCT_OFFSET (TpsApplicationException, kind) },
  { NULL },
};

void
tps_application_exception_read (TpsReader *in, TpsApplicationException *exception)
{
  tps_fields_read_leniently (exception_fields, in, exception);
}

void
tps_application_exception_write (TpsWriter *out, const TpsApplicationException *exception)
{
  tps_fields_write (exception_fields, out, exception);
}

void
tps_application_exception_clear (TpsApplicationException *exception)
{
  g_clear_pointer (&exception->message, g_free);
}
