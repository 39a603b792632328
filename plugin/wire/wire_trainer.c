/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_trainer.h"

#include "plugin/wire/json_config.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/base/error.h"

#define NS_PER_MS G_GINT64_CONSTANT (1000000)

/* ---- TrainSpec: reading --------------------------------------------------------------------- */

static gboolean
read_count (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 value = tps_reader_i32 (in);

  if (value < 0)
    return tps_field_refuse (path, error, "is %d, expected >= 0", value);
  *(guint *) target = (guint) value;
  return TRUE;
}

static gboolean
read_timeout (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  guint timeout_ms = 0;

  if (!read_count (in, path, &timeout_ms, error))
    return FALSE;
  *(gint64 *) target = timeout_ms * NS_PER_MS;
  return TRUE;
}

/* Refuses the text at `path` for the reason in `cause`. */
static gboolean
refuse_text (const TpsFieldPath *path, const GError *cause, GError **error)
{
  return tps_field_refuse (path, error, "is not usable: %s", cause->message);
}

static gboolean
read_model_config (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsTrainPlan *plan = target;
  g_autofree gchar *text = NULL;
  g_autofree gchar *class_name = NULL;
  g_autoptr (GError) cause = NULL;
  GVariant *values;

  if (!tps_field_read_string (in, path, &text, error))
    return FALSE;
  values = tps_json_model_config_parse (text, &class_name, &cause);
  if (values == NULL)
    return refuse_text (path, cause, error);
  g_free (plan->model_class);
  plan->model_class = g_steal_pointer (&class_name);
  g_clear_pointer (&plan->model_config, g_variant_unref);
  plan->model_config = values;
  return TRUE;
}

static gboolean
read_trainer_config (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  GVariant **config = target;
  g_autofree gchar *text = NULL;
  g_autoptr (GError) cause = NULL;
  GVariant *values;

  if (!tps_field_read_string (in, path, &text, error))
    return FALSE;
  values = tps_json_config_parse (text, &cause);
  if (values == NULL)
    return refuse_text (path, cause, error);
  g_clear_pointer (config, g_variant_unref);
  *config = values;
  return TRUE;
}

/* Batches are trained with when the call has long been answered. */
static const TpsFieldSpec batch_fields[] = {
  { "input", 1, TPS_WIRE_STRUCT, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsTrainBatch, input),
    .read = tps_field_read_kept_tensor },
  { "target", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsTrainBatch, target), .read = tps_field_read_kept_tensor },
  { NULL },
};

static const TpsFieldSpec server_fields[] = {
  { "rank", 1, TPS_WIRE_I32, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsServerAddress, rank) },
  { "address", 2, TPS_WIRE_BINARY, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsServerAddress, address) },
  { NULL },
};

/* Reads a list of structs into an array that clears its elements. It grows with what is read: a struct of the wire may be
 * a byte, ours are not. */
static gboolean
read_structs (TpsReader *in, const TpsFieldPath *path, const TpsFieldSpec *specs, GArray *array,
              GError **error)
{
  guint elem_size = g_array_get_element_size (array);
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_STRUCT, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };

      g_array_set_size (array, array->len + 1); /* zeroed */
      if (!tps_fields_read (in, &at, specs, array->data + (gsize) (array->len - 1) * elem_size,
                            NULL, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_batches (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return read_structs (in, path, batch_fields, *(GArray **) target, error);
}

static gboolean
read_servers (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return read_structs (in, path, server_fields, *(GArray **) target, error);
}

#define PLAN_FIELD(number, wire_type, field, ...)                \
  {                                                              \
    .name = #field, .id = number, .type = TPS_WIRE_##wire_type,  \
    .offset = G_STRUCT_OFFSET (TpsTrainPlan, field), __VA_ARGS__ \
  }

static const TpsFieldSpec plan_fields[] = {
  PLAN_FIELD (1, BINARY, pass_name, .required = TRUE, .read = tps_field_read_name),
  PLAN_FIELD (2, I32, rank, .required = TRUE, .read = read_count),
  PLAN_FIELD (3, I32, world_size, .required = TRUE, .read = read_count),
  { "model_config", 4, TPS_WIRE_BINARY, .required = TRUE, .read = read_model_config },
  PLAN_FIELD (5, LIST, batches, .required = TRUE, .read = read_batches),
  PLAN_FIELD (6, I32, steps_per_epoch, .required = TRUE, .read = read_count),
  PLAN_FIELD (7, I32, epochs, .read = read_count),
  PLAN_FIELD (8, I64, seed),
  PLAN_FIELD (9, BINARY, trainer),
  PLAN_FIELD (10, BINARY, trainer_config, .read = read_trainer_config),
  PLAN_FIELD (11, BINARY, backend),
  PLAN_FIELD (12, BINARY, preprocess_data),
  PLAN_FIELD (13, BINARY, create_criterion),
  PLAN_FIELD (14, BINARY, create_ddp_model),
  PLAN_FIELD (15, BINARY, hook_state),
  PLAN_FIELD (16, BINARY, ddp_hook),
  PLAN_FIELD (17, BINARY, iteration_step),
  PLAN_FIELD (18, LIST, servers, .read = read_servers),
  PLAN_FIELD (19, BOOL, partition_by_trainer),
  PLAN_FIELD (20, DOUBLE, first_bucket_mib),
  PLAN_FIELD (21, DOUBLE, bucket_cap_mib),
  PLAN_FIELD (22, DOUBLE, learning_rate),
  { "rpc_timeout_ms", 23, TPS_WIRE_I32, .offset = G_STRUCT_OFFSET (TpsTrainPlan, rpc_timeout_ns),
    .read = read_timeout },
  PLAN_FIELD (24, BINARY, rendezvous),
  PLAN_FIELD (25, BINARY, reduce),
  PLAN_FIELD (26, BINARY, compress),
  PLAN_FIELD (27, BINARY, device),
  { NULL },
};

static gboolean
read_plan (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_fields_read (in, path, plan_fields, target, NULL, error);
}

static const TpsFieldSpec train_fields[] = {
  { "spec", 1, TPS_WIRE_STRUCT, .required = TRUE, .read = read_plan },
  { NULL },
};

TpsTrainPlan *
tps_train_arguments_decode (TpsReader *in, GError **error)
{
  g_autoptr (TpsTrainPlan) plan = tps_train_plan_new ();

  if (!tps_fields_read (in, NULL, train_fields, plan, NULL, error))
    return NULL;
  return g_steal_pointer (&plan);
}

/* ---- TrainSpec: writing --------------------------------------------------------------------- */

static void
encode_batches (TpsWriter *out, const GArray *batches)
{
  tps_writer_field (out, 5, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, batches->len);
  for (guint i = 0; i < batches->len; i++)
    {
      const TpsTrainBatch *batch = &g_array_index (batches, TpsTrainBatch, i);

      tps_writer_struct_begin (out);
      tps_writer_field (out, 1, TPS_WIRE_STRUCT);
      tps_tensor_encode (out, &batch->input);
      tps_writer_field (out, 2, TPS_WIRE_STRUCT);
      tps_tensor_encode (out, &batch->target);
      tps_writer_struct_end (out);
    }
}

static void
encode_servers (TpsWriter *out, const GArray *servers)
{
  tps_writer_field (out, 18, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, servers->len);
  for (guint i = 0; i < servers->len; i++)
    {
      const TpsServerAddress *server = &g_array_index (servers, TpsServerAddress, i);

      tps_writer_struct_begin (out);
      tps_field_write_i32 (out, 1, server->rank);
      tps_field_write_string (out, 2, server->address);
      tps_writer_struct_end (out);
    }
}

/* The fields that name classes and functions, 9 to 17. */
static void
encode_plan_names (TpsWriter *out, const TpsTrainPlan *plan)
{
  g_autofree gchar *trainer_config = tps_json_config_to_string (plan->trainer_config);

  tps_field_write_string (out, 9, plan->trainer);
  tps_field_write_string (out, 10, trainer_config);
  tps_field_write_string (out, 11, plan->backend);
  tps_field_write_string (out, 12, plan->preprocess_data);
  tps_field_write_string (out, 13, plan->create_criterion);
  tps_field_write_string (out, 14, plan->create_ddp_model);
  tps_field_write_string (out, 15, plan->hook_state);
  tps_field_write_string (out, 16, plan->ddp_hook);
  tps_field_write_string (out, 17, plan->iteration_step);
}

/* The fields about how gradients travel, 18 to 26, and where they are computed. */
static void
encode_plan_transfer (TpsWriter *out, const TpsTrainPlan *plan)
{
  encode_servers (out, plan->servers);
  tps_writer_field (out, 19, TPS_WIRE_BOOL);
  tps_writer_bool (out, plan->partition_by_trainer);
  tps_field_write_double (out, 20, plan->first_bucket_mib);
  tps_field_write_double (out, 21, plan->bucket_cap_mib);
  tps_field_write_double (out, 22, plan->learning_rate);
  tps_field_write_i32 (out, 23, (gint32) MIN (plan->rpc_timeout_ns / NS_PER_MS, G_MAXINT32));
  tps_field_write_string (out, 24, plan->rendezvous);
  tps_field_write_string (out, 25, plan->reduce);
  tps_field_write_string (out, 26, plan->compress);
  tps_field_write_string (out, 27, plan->device);
}

void
tps_train_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsTrainPlan *plan = data;
  g_autofree gchar *model_config = tps_json_model_config_to_string (plan->model_class,
                                                                    plan->model_config);

  tps_writer_field (out, 1, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_string (out, 1, plan->pass_name);
  tps_field_write_i32 (out, 2, (gint32) plan->rank);
  tps_field_write_i32 (out, 3, (gint32) plan->world_size);
  tps_field_write_string (out, 4, model_config);
  encode_batches (out, plan->batches);
  tps_field_write_i32 (out, 6, (gint32) plan->steps_per_epoch);
  tps_field_write_i32 (out, 7, (gint32) plan->epochs);
  tps_field_write_i64 (out, 8, plan->seed);
  encode_plan_names (out, plan);
  encode_plan_transfer (out, plan);
  tps_writer_struct_end (out);
}

/* ---- TrainStatus ---------------------------------------------------------------------------- */

/* What is received of a TrainStatus: the error stands there in two fields. */
typedef struct
{
  TpsTrainStatus status;
  gint32 error_code;
  gchar *message;
} ReceivedStatus;

static gboolean
read_state (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 state = tps_reader_i32 (in);

  if (state < TPS_TRAIN_IDLE || state > TPS_TRAIN_CANCELLED)
    return tps_field_refuse (path, error, "is %d, which is no TrainState", state);
  *(TpsTrainState *) target = (TpsTrainState) state;
  return TRUE;
}

static gboolean
read_loss (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  ReceivedStatus *received = target;

  received->status.loss = tps_reader_double (in);
  received->status.has_loss = TRUE;
  return TRUE;
}

static gboolean
read_digest (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsTrainStatus *status = &((ReceivedStatus *) target)->status;

  status->has_digest = tps_field_read_exactly (in, path, status->parameters_digest,
                                               sizeof status->parameters_digest, error);
  return status->has_digest;
}

#define STATUS_FIELD(number, wire_type, field, ...)                       \
  {                                                                       \
    .name = #field, .id = number, .type = TPS_WIRE_##wire_type,           \
    .offset = G_STRUCT_OFFSET (ReceivedStatus, status.field), __VA_ARGS__ \
  }

static const TpsFieldSpec status_fields[] = {
  STATUS_FIELD (1, I32, state, .required = TRUE, .read = read_state),
  STATUS_FIELD (2, BINARY, pass_name, .required = TRUE),
  STATUS_FIELD (3, I64, steps_done, .required = TRUE),
  STATUS_FIELD (4, I64, steps_total, .required = TRUE),
  STATUS_FIELD (5, I64, heartbeat, .required = TRUE),
  { "error_code", 6, TPS_WIRE_I32, .offset = G_STRUCT_OFFSET (ReceivedStatus, error_code) },
  { "message", 7, TPS_WIRE_BINARY, .offset = G_STRUCT_OFFSET (ReceivedStatus, message) },
  { "loss", 8, TPS_WIRE_DOUBLE, .read = read_loss },
  { "parameters_digest", 9, TPS_WIRE_BINARY, .read = read_digest },
  STATUS_FIELD (10, I64, samples),
  STATUS_FIELD (11, I64, epoch_samples),
  { NULL },
};

gboolean
tps_train_status_result_decode (TpsReader *in, TpsWireType type, gpointer data, GError **error)
{
  TpsTrainStatus *status = data;
  TpsFieldPath path = { .name = "status" };
  ReceivedStatus received = { 0 };
  gboolean ok = tps_field_check_type (&path, type, TPS_WIRE_STRUCT, error)
                && tps_fields_read (in, &path, status_fields, &received, NULL, error);

  if (ok)
    {
      tps_train_status_clear (status);
      *status = received.status;
      if (status->state == TPS_TRAIN_FAILED)
        status->error = g_error_new_literal (
            TPS_ERROR, tps_error_from_wire_code (received.error_code),
            received.message != NULL ? received.message : "no reason was given");
    }
  else
    tps_train_status_clear (&received.status);
  g_free (received.message);
  return ok;
}

static void
encode_digest (TpsWriter *out, const TpsTrainStatus *status)
{
  tps_writer_field (out, 9, TPS_WIRE_BINARY);
  tps_writer_binary (out, status->parameters_digest, sizeof status->parameters_digest);
}

static void
encode_outcome (TpsWriter *out, const TpsTrainStatus *status)
{
  if (status->error != NULL)
    {
      tps_field_write_i32 (out, 6, tps_error_to_wire_code (status->error));
      tps_field_write_string (out, 7, status->error->message);
    }
  if (status->has_loss)
    tps_field_write_double (out, 8, status->loss);
  if (status->has_digest)
    encode_digest (out, status);
  if (status->samples == 0)
    return;
  tps_field_write_i64 (out, 10, status->samples);
  tps_field_write_i64 (out, 11, status->epoch_samples);
}

void
tps_train_status_result_encode (TpsWriter *out, gconstpointer data)
{
  const TpsTrainStatus *status = data;

  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_i32 (out, 1, (gint32) status->state);
  tps_field_write_string (out, 2, status->pass_name != NULL ? status->pass_name : "");
  tps_field_write_i64 (out, 3, status->steps_done);
  tps_field_write_i64 (out, 4, status->steps_total);
  tps_field_write_i64 (out, 5, status->heartbeat);
  encode_outcome (out, status);
  tps_writer_struct_end (out);
}
