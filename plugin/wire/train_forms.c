/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/train_forms.h"

#include "plugin/wire/json_config.h"
#include "plugin/wire/wire_trainer.h"
#include "runtime/base/error.h"

#define NS_PER_MS G_GINT64_CONSTANT (1000000)

/* ---- TrainSpec ------------------------------------------------------------------------------ */

static gboolean
read_timeout (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
              GError **error)
{
  gint32 timeout_ms = tps_reader_i32 (in);

  if (timeout_ms < 0)
    return tps_field_refuse (path, error, "is %d, expected >= 0", timeout_ms);
  *(gint64 *) TPS_FIELD_VALUE (field, object) = timeout_ms * NS_PER_MS;
  return TRUE;
}

static void
write_timeout (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  gint64 timeout_ns = *(const gint64 *) TPS_FIELD_CONST_VALUE (field, object);

  tps_writer_i32 (out, (gint32) MIN (timeout_ns / NS_PER_MS, G_MAXINT32));
}

/* Reads a text and parses it as JSON: as the configuration of a model if `class_name` is not NULL,
 * otherwise as a configuration. Returns the values, which the caller owns; NULL on error. */
static GVariant *
read_json (TpsReader *in, const TpsFieldPath *path, gchar **class_name, GError **error)
{
  static const TpsField text_field = { "text", .kind = &tps_kind_string };
  g_autofree gchar *text = NULL;
  g_autoptr (GError) cause = NULL;
  GVariant *values;

  if (!tps_kind_string.read (in, path, &text_field, &text, error))
    return NULL;
  values = class_name != NULL ? tps_json_model_config_parse (text, class_name, &cause)
                              : tps_json_config_parse (text, &cause);
  if (values == NULL)
    tps_field_refuse (path, error, "is not usable: %s", cause->message);
  return values;
}

static gboolean
read_model_config (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                   GError **error)
{
  TpsTrainPlan *plan = object;
  g_autofree gchar *class_name = NULL;
  GVariant *values = read_json (in, path, &class_name, error);

  if (values == NULL)
    return FALSE;
  g_free (plan->model_class);
  plan->model_class = g_steal_pointer (&class_name);
  g_clear_pointer (&plan->model_config, g_variant_unref);
  plan->model_config = values;
  return TRUE;
}

static void
write_model_config (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsTrainPlan *plan = object;
  g_autofree gchar *text = tps_json_model_config_to_string (plan->model_class, plan->model_config);

  tps_writer_string (out, text);
}

static gboolean
read_config (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
             GError **error)
{
  GVariant **config = TPS_FIELD_VALUE (field, object);
  GVariant *values = read_json (in, path, NULL, error);

  if (values == NULL)
    return FALSE;
  g_clear_pointer (config, g_variant_unref);
  *config = values;
  return TRUE;
}

static void
write_config (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  g_autofree gchar *text = tps_json_config_to_string (
      *(GVariant *const *) TPS_FIELD_CONST_VALUE (field, object));

  tps_writer_string (out, text);
}

const TpsValueKind tps_kind_timeout = { TPS_WIRE_I32, read_timeout, write_timeout };
const TpsValueKind tps_kind_model_config = { TPS_WIRE_BINARY, read_model_config,
                                             write_model_config };
const TpsValueKind tps_kind_json_config = { TPS_WIRE_BINARY, read_config, write_config };

/* ---- TrainStatus ---------------------------------------------------------------------------- */

gboolean
tps_read_train_status (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsTrainStatus *status = target;
  TpsTrainStatusForm received = { 0 };
  gboolean ok = tps_fields_read (tps_train_status_fields, in, path, &received, NULL, error);

  tps_train_status_clear (status);
  *status = received.status;
  if (ok && status->state == TPS_TRAIN_FAILED)
    status->error = g_error_new_literal (TPS_ERROR, tps_error_from_wire_code (received.error_code),
                                         received.message != NULL ? received.message
                                                                  : "no reason was given");
  g_free (received.message);
  return ok;
}

void
tps_write_train_status (TpsWriter *out, gconstpointer source)
{
  TpsTrainStatusForm sent = { .status = *(const TpsTrainStatus *) source };
  const GError *error = sent.status.error;

  if (sent.status.pass_name == NULL)
    sent.status.pass_name = (gchar *) (gsize) "";
  sent.has_samples = sent.status.samples != 0;
  sent.has_error_code = error != NULL;
  if (error != NULL)
    {
      sent.error_code = tps_error_to_wire_code (error);
      sent.message = error->message;
    }
  tps_writer_struct_begin (out);
  tps_fields_write (tps_train_status_fields, out, &sent);
  tps_writer_struct_end (out);
}
