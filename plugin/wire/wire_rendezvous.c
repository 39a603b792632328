/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_rendezvous.h"

#include "runtime/base/error.h"

void
tps_rendezvous_arguments_clear (TpsRendezvousArguments *arguments)
{
  g_clear_pointer (&arguments->key, g_free);
  g_clear_pointer (&arguments->value, g_bytes_unref);
  tps_push_id_clear (&arguments->push);
}

/* ---- reading -------------------------------------------------------------------------------- */

static gboolean
read_timeout (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 timeout_ms = tps_reader_i32 (in);

  *(gint32 *) target = timeout_ms;
  return timeout_ms >= 0 || tps_field_refuse (path, error, "is %d, expected >= 0", timeout_ms);
}

static gboolean
read_push (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_push_id_decode (in, path, target, error);
}

#define KEY_FIELD(what)                                                                  \
  {                                                                                      \
    .name = what, .id = 1, .type = TPS_WIRE_BINARY, .required = TRUE,                    \
    .offset = G_STRUCT_OFFSET (TpsRendezvousArguments, key), .read = tps_field_read_name \
  }

static const TpsFieldSpec put_fields[] = {
  KEY_FIELD ("key"),
  { "value", 2, TPS_WIRE_BINARY, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsRendezvousArguments, value), .read = tps_field_read_bytes },
  { NULL },
};

static const TpsFieldSpec get_fields[] = {
  KEY_FIELD ("key"),
  { "timeout_ms", 2, TPS_WIRE_I32, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsRendezvousArguments, timeout_ms), .read = read_timeout },
  { NULL },
};

static const TpsFieldSpec add_fields[] = {
  KEY_FIELD ("key"),
  { "amount", 2, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsRendezvousArguments, amount) },
  { "push", 3, TPS_WIRE_STRUCT, .offset = G_STRUCT_OFFSET (TpsRendezvousArguments, push),
    .read = read_push },
  { NULL },
};

static const TpsFieldSpec remove_fields[] = {
  KEY_FIELD ("prefix"),
  { NULL },
};

gboolean
tps_rendezvous_put_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                     GError **error)
{
  return tps_fields_read (in, NULL, put_fields, arguments, NULL, error);
}

gboolean
tps_rendezvous_get_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                     GError **error)
{
  return tps_fields_read (in, NULL, get_fields, arguments, NULL, error);
}

gboolean
tps_rendezvous_add_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                     GError **error)
{
  return tps_fields_read (in, NULL, add_fields, arguments, NULL, error);
}

gboolean
tps_rendezvous_remove_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                        GError **error)
{
  return tps_fields_read (in, NULL, remove_fields, arguments, NULL, error);
}

gboolean
tps_rendezvous_get_result_decode (TpsReader *in, TpsWireType type, gpointer value, GError **error)
{
  TpsFieldPath path = { .name = "value" };

  return tps_field_check_type (&path, type, TPS_WIRE_BINARY, error)
         && tps_field_read_bytes (in, &path, value, error)
         && tps_field_check_reader (in, &path, error);
}

gboolean
tps_rendezvous_add_result_decode (TpsReader *in, TpsWireType type, gpointer sum, GError **error)
{
  TpsFieldPath path = { .name = "sum" };

  if (!tps_field_check_type (&path, type, TPS_WIRE_I64, error))
    return FALSE;
  *(gint64 *) sum = tps_reader_i64 (in);
  return tps_field_check_reader (in, &path, error);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void
encode_key (TpsWriter *out, const TpsRendezvousArguments *arguments)
{
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_string (out, arguments->key);
}

static void
encode_bytes (TpsWriter *out, gint16 id, GBytes *value)
{
  gsize n_bytes;
  gconstpointer bytes = g_bytes_get_data (value, &n_bytes);

  tps_writer_field (out, id, TPS_WIRE_BINARY);
  tps_writer_binary_borrowed (out, bytes, n_bytes);
}

void
tps_rendezvous_put_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsRendezvousArguments *arguments = data;

  encode_key (out, arguments);
  encode_bytes (out, 2, arguments->value);
}

void
tps_rendezvous_get_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsRendezvousArguments *arguments = data;

  encode_key (out, arguments);
  tps_writer_field (out, 2, TPS_WIRE_I32);
  tps_writer_i32 (out, arguments->timeout_ms);
}

void
tps_rendezvous_add_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsRendezvousArguments *arguments = data;

  encode_key (out, arguments);
  tps_writer_field (out, 2, TPS_WIRE_I64);
  tps_writer_i64 (out, arguments->amount);
  if (arguments->push.client == NULL)
    return;
  tps_writer_field (out, 3, TPS_WIRE_STRUCT);
  tps_push_id_encode (out, &arguments->push);
}

void
tps_rendezvous_remove_arguments_encode (TpsWriter *out, gconstpointer data)
{
  encode_key (out, data);
}

void
tps_rendezvous_get_result_encode (TpsWriter *out, gconstpointer value)
{
  encode_bytes (out, 0, (GBytes *) (guintptr) value);
}

void
tps_rendezvous_add_result_encode (TpsWriter *out, gconstpointer sum)
{
  tps_writer_field (out, 0, TPS_WIRE_I64);
  tps_writer_i64 (out, *(const gint64 *) sum);
}
