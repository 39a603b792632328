/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_failure.h"

#include "plugin/wire/wire_forms.h"

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

const TpsValueKind tps_kind_foreign_text = { TPS_WIRE_BINARY, read_text, write_text };

/* ---- ServiceError --------------------------------------------------------------------------- */

gboolean
tps_read_service_error (TpsReader *in, const TpsFieldPath *path, gpointer failure, GError **error)
{
  tps_fields_read_leniently (tps_service_error_fields, in, failure);
  return TRUE;
}

const TpsField tps_failure_field = { "failure", 1, .kind = &tps_kind_struct,
                                     .of = &tps_service_error_struct };

void
tps_service_error_read (TpsReader *in, TpsServiceError *failure)
{
  tps_fields_read_leniently (tps_service_error_fields, in, failure);
}

/* ---- TApplicationException ------------------------------------------------------------------ */

static const TpsField exception_fields[] = {
  { "message", 1, TPS_FIELD_DEFAULT, &tps_kind_foreign_text, NULL,
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
