/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_trainer.h"

#include "plugin/wire/json_config.h"
#include "plugin/wire/wire_failure.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/base/error.h"

#define SERVICE "Trainer"
#define NS_PER_MS G_GINT64_CONSTANT (1000000)

/* ---- kinds of TrainSpec --------------------------------------------------------------------- */

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

static const TpsValueKind timeout_kind = { TPS_WIRE_I32, "i32", read_timeout, write_timeout };
static const TpsValueKind model_config_kind = { TPS_WIRE_BINARY, "string", read_model_config,
                                                write_model_config };
static const TpsValueKind config_kind = { TPS_WIRE_BINARY, "string", read_config, write_config };

/* ---- TrainBatch, ServerAddress -------------------------------------------------------------- */

/* The tensors of batches are kept, because training continues after the reply. */
static const TpsField batch_fields[] = {
  { "input", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_kept_tensor_struct,
    G_STRUCT_OFFSET (TpsTrainBatch, input) },
  { "target", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_kept_tensor_struct,
    G_STRUCT_OFFSET (TpsTrainBatch, target) },
  { NULL },
};

static const TpsField server_fields[] = {
  { "rank", 1, TPS_FIELD_REQUIRED, &tps_kind_i32, NULL, G_STRUCT_OFFSET (TpsServerAddress, rank) },
  { "address", 2, TPS_FIELD_REQUIRED, &tps_kind_string, NULL,
    G_STRUCT_OFFSET (TpsServerAddress, address) },
  { NULL },
};

static const TpsStruct batch_struct = { "TrainBatch", batch_fields };
static const TpsStruct server_struct = { "ServerAddress", server_fields };

static const TpsList batches = {
  .elem = { .kind = &tps_kind_struct, .of = &batch_struct },
  .form = TPS_LIST_COUNTED,
  .elem_size = sizeof (TpsTrainBatch),
};

static const TpsList servers = {
  .elem = { .kind = &tps_kind_struct, .of = &server_struct },
  .form = TPS_LIST_COUNTED,
  .elem_size = sizeof (TpsServerAddress),
};

/* ---- train, cancel -------------------------------------------------------------------------- */

#define PLAN(id, field, presence, kind, of)                               \
  {                                                                       \
#field, id, presence, &kind, of, G_STRUCT_OFFSET(TpsTrainPlan, field) \
  }
#define PLAN_LIST(id, list, presence)                                                   \
  {                                                                                     \
#list, id, presence, &tps_kind_list, &list, G_STRUCT_OFFSET(TpsTrainPlan, n_##list) \
  }
#define COUNT(id, field, presence) PLAN (id, field, presence, tps_kind_i32, &tps_limit_not_negative)
#define TEXT(id, field) PLAN (id, field, TPS_FIELD_DEFAULT, tps_kind_string, NULL)
#define NUMBER(id, field) PLAN (id, field, TPS_FIELD_DEFAULT, tps_kind_double, NULL)

static const TpsField plan_fields[] = {
  PLAN (1, pass_name, TPS_FIELD_REQUIRED, tps_kind_name, NULL),
  COUNT (2, rank, TPS_FIELD_REQUIRED),
  COUNT (3, world_size, TPS_FIELD_REQUIRED),
  PLAN (4, model_config, TPS_FIELD_REQUIRED, model_config_kind, NULL),
  PLAN_LIST (5, batches, TPS_FIELD_REQUIRED),
  COUNT (6, steps_per_epoch, TPS_FIELD_REQUIRED),
  COUNT (7, epochs, TPS_FIELD_DEFAULT),
  PLAN (8, seed, TPS_FIELD_DEFAULT, tps_kind_i64, NULL),
  TEXT (9, trainer),
  PLAN (10, trainer_config, TPS_FIELD_DEFAULT, config_kind, NULL),
  TEXT (11, backend),
  TEXT (12, preprocess_data),
  TEXT (13, create_criterion),
  TEXT (14, create_ddp_model),
  TEXT (15, hook_state),
  TEXT (16, ddp_hook),
  TEXT (17, iteration_step),
  PLAN_LIST (18, servers, TPS_FIELD_DEFAULT),
  PLAN (19, partition_by_trainer, TPS_FIELD_DEFAULT, tps_kind_bool, NULL),
  NUMBER (20, first_bucket_mib),
  NUMBER (21, bucket_cap_mib),
  NUMBER (22, learning_rate),
  { "rpc_timeout_ms", 23, TPS_FIELD_DEFAULT, &timeout_kind, NULL,
    G_STRUCT_OFFSET (TpsTrainPlan, rpc_timeout_ns) },
  TEXT (24, rendezvous),
  TEXT (25, reduce),
  TEXT (26, compress),
  TEXT (27, device),
  PLAN (28, piece_bytes, TPS_FIELD_DEFAULT, tps_kind_i64, &tps_limit_not_negative),
  { NULL },
};

static const TpsStruct plan_struct = { "TrainSpec", plan_fields };

static const TpsField train_arguments[] = {
  { "spec", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &plan_struct },
  { NULL },
};

const TpsRpc tps_train_rpc = { SERVICE, "train", train_arguments };
const TpsRpc tps_cancel_train_rpc = { SERVICE, "cancel" };

/* ---- status --------------------------------------------------------------------------------- */

static const TpsEnumValue states[] = {
  { "IDLE", TPS_TRAIN_IDLE },           { "RUNNING", TPS_TRAIN_RUNNING },
  { "SUCCEEDED", TPS_TRAIN_SUCCEEDED }, { "FAILED", TPS_TRAIN_FAILED },
  { "CANCELLED", TPS_TRAIN_CANCELLED }, { NULL },
};

static const TpsEnum state_enum = { "TrainState", states };

/* The form of a TrainStatus on the wire, in which the error consists of two fields. */
typedef struct
{
  TpsTrainStatus status;
  gboolean has_error;
  gint32 error_code;
  gchar *message;
  gboolean has_samples;
} WireStatus;

static const gsize digest_bytes = sizeof ((TpsTrainStatus *) NULL)->parameters_digest;

#define STATUS(id, name, presence, kind, of, ...)                                         \
  {                                                                                       \
#name, id, presence, &kind, of, G_STRUCT_OFFSET(WireStatus, status.name), __VA_ARGS__ \
  }

static const TpsField status_fields[] = {
  STATUS (1, state, TPS_FIELD_REQUIRED, tps_kind_enum, &state_enum, 0),
  STATUS (2, pass_name, TPS_FIELD_REQUIRED, tps_kind_string, NULL, 0),
  STATUS (3, steps_done, TPS_FIELD_REQUIRED, tps_kind_i64, NULL, 0),
  STATUS (4, steps_total, TPS_FIELD_REQUIRED, tps_kind_i64, NULL, 0),
  STATUS (5, heartbeat, TPS_FIELD_REQUIRED, tps_kind_i64, NULL, 0),
  { "error_code", 6, TPS_FIELD_OPTIONAL, &tps_kind_open_enum, &tps_error_code_enum,
    G_STRUCT_OFFSET (WireStatus, error_code), G_STRUCT_OFFSET (WireStatus, has_error) },
  { "message", 7, TPS_FIELD_OPTIONAL, &tps_kind_string, NULL,
    G_STRUCT_OFFSET (WireStatus, message) },
  STATUS (8, loss, TPS_FIELD_OPTIONAL, tps_kind_double, NULL,
          G_STRUCT_OFFSET (WireStatus, status.has_loss)),
  STATUS (9, parameters_digest, TPS_FIELD_OPTIONAL, tps_kind_array, &digest_bytes,
          G_STRUCT_OFFSET (WireStatus, status.has_digest)),
  STATUS (10, samples, TPS_FIELD_OPTIONAL, tps_kind_i64, NULL,
          G_STRUCT_OFFSET (WireStatus, has_samples)),
  STATUS (11, epoch_samples, TPS_FIELD_OPTIONAL, tps_kind_i64, NULL,
          G_STRUCT_OFFSET (WireStatus, has_samples)),
  { NULL },
};

static gboolean
read_status (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsTrainStatus *status = target;
  WireStatus received = { 0 };
  gboolean ok = tps_fields_read (status_fields, in, path, &received, NULL, error);

  tps_train_status_clear (status);
  *status = received.status;
  if (ok && status->state == TPS_TRAIN_FAILED)
    status->error = g_error_new_literal (TPS_ERROR, tps_error_from_wire_code (received.error_code),
                                         received.message != NULL ? received.message
                                                                  : "no reason was given");
  g_free (received.message);
  return ok;
}

static void
write_status (TpsWriter *out, gconstpointer source)
{
  WireStatus sent = { .status = *(const TpsTrainStatus *) source };
  const GError *error = sent.status.error;

  if (sent.status.pass_name == NULL)
    sent.status.pass_name = (gchar *) (gsize) "";
  sent.has_samples = sent.status.samples != 0;
  sent.has_error = error != NULL;
  if (error != NULL)
    {
      sent.error_code = tps_error_to_wire_code (error);
      sent.message = error->message;
    }
  tps_writer_struct_begin (out);
  tps_fields_write (status_fields, out, &sent);
  tps_writer_struct_end (out);
}

static const TpsStruct status_struct = { "TrainStatus", status_fields, read_status, write_status };

static const TpsField status_result = { "status", .kind = &tps_kind_struct, .of = &status_struct };

const TpsRpc tps_train_status_rpc = { SERVICE, "status", .result = &status_result };
