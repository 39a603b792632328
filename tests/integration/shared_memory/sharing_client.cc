/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/shared_memory/sharing_client.h"

#include <chrono>
#include <random>

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace tps_test {

namespace {

constexpr gint64 WARM_ROWS = 16384; /* their ids take 128 KiB, their rows 1 MiB */

gint64
in_s (gint64 seconds)
{
  return std::chrono::duration_cast<std::chrono::nanoseconds> (
             std::chrono::steady_clock::now ().time_since_epoch ())
             .count ()
         + seconds * 1000000000;
}

TpsTensor
make_tensor (TpsDType dtype, std::vector<gint64> dims, gconstpointer values)
{
  TpsTensor tensor = {};
  TpsShape shape;

  tps_shape_init (&shape, dtype, static_cast<guint> (dims.size ()), dims.data (), "shape", nullptr);
  tps_tensor_init (&tensor, &shape);
  memcpy (tps_tensor_data (&tensor), values, tps_shape_n_bytes (&shape));
  return tensor;
}

TpsTensor
make_tensor (const Values &values)
{
  return make_tensor (TPS_DTYPE_FLOAT32, { static_cast<gint64> (values.size ()) }, values.data ());
}

TpsTensor
make_tensor (const std::vector<gint64> &values)
{
  return make_tensor (TPS_DTYPE_INT64, { static_cast<gint64> (values.size ()) }, values.data ());
}

std::string
bits_of (const TpsTensor &tensor)
{
  return std::string (static_cast<const char *> (tps_tensor_data (&tensor)),
                      tps_shape_n_bytes (&tensor.shape));
}

std::string
bits_of (const TpsModelVersion *model)
{
  std::string bits = std::to_string (model->version);

  for (guint i = 0; i < model->n_parameters; i++)
    bits += std::string (model->parameters[i].name) + bits_of (model->parameters[i].tensor);
  return bits;
}

}

Values
make_values (gsize n_elems, unsigned seed)
{
  std::mt19937 random (seed);
  Values values (n_elems);

  for (float &value : values)
    value = static_cast<float> (random () % 20001) / 10000 - 1;
  return values;
}

gint64
later ()
{
  return in_s (60);
}

SharingClient::SharingClient (const std::string &address, bool no_shared_memory)
{
  TpsClientOptions options = {};

  options.address = address.c_str ();
  options.no_shared_memory = no_shared_memory;
  client_ = tps_client_new (&options, nullptr);
}

SharingClient::SharingClient (const TpsClientOptions &options)
    : client_ (tps_client_new (&options, nullptr))
{
}

SharingClient::~SharingClient ()
{
  tps_client_free (client_);
}

bool
SharingClient::keep_error (GError *error)
{
  error_ = error != nullptr ? error->message : "";
  g_clear_error (&error);
  return error_.empty ();
}

std::string
SharingClient::average (gint32 trainer, gint64 batch, const Values &gradient, gint64 deadline_ns)
{
  g_auto (TpsAverageGradientArguments) arguments = {};
  g_auto (TpsGradient) average = {};
  GError *error = nullptr;

  arguments.trainer = trainer;
  arguments.batch = batch;
  arguments.gradient.kind = TPS_GRADIENT_DENSE;
  arguments.gradient.weight = 1;
  arguments.gradient.dense = make_tensor (gradient);
  tps_remote_average_gradient (client_, &arguments, deadline_ns, &average, &error);
  return keep_error (error) ? bits_of (average.dense) : "";
}

void
SharingClient::push (gint32 trainer, gint64 batch, const Values &gradient)
{
  TpsAverageGradientArguments *arguments = g_new0 (TpsAverageGradientArguments, 1);
  TpsClientDone done = [] (gpointer user_data, TpsReader *, TpsWireType, const GError *) {
    tps_average_gradient_arguments_clear (static_cast<TpsAverageGradientArguments *> (user_data));
    g_free (user_data);
  };

  arguments->trainer = trainer;
  arguments->batch = batch;
  arguments->gradient.kind = TPS_GRADIENT_DENSE;
  arguments->gradient.weight = 1;
  arguments->gradient.dense = make_tensor (gradient);
  tps_client_call (client_, "ParameterServer", "average_gradient",
                   thriftps::WriteArgumentsOf<tps_average_gradient_rpc>, arguments, later (), done,
                   arguments);
}

std::string
SharingClient::update (gint32 trainer, gint64 push, const std::vector<Values> &gradients)
{
  g_auto (TpsUpdateModelArguments) arguments = {};
  GError *error = nullptr;

  arguments.trainer = trainer;
  arguments.push.client = g_strdup_printf ("trainer%d", trainer);
  arguments.push.sequence = push;
  arguments.gradients.n_tensors = static_cast<guint> (gradients.size ());
  arguments.gradients.tensors = g_new0 (TpsTensor, gradients.size ());
  for (gsize i = 0; i < gradients.size (); i++)
    arguments.gradients.tensors[i] = make_tensor (gradients[i]);
  g_autoptr (TpsModelVersion)
      model = tps_remote_update_and_fetch_model (client_, &arguments, later (), &error);
  return keep_error (error) ? bits_of (model) : "";
}

TpsModelVersion *
SharingClient::get_model (gint64 deadline_ns)
{
  GError *error = nullptr;
  TpsModelVersion *model = tps_remote_get_model (client_, deadline_ns, &error);

  keep_error (error);
  return model;
}

bool
SharingClient::init_model (const std::vector<Values> &parameters)
{
  g_auto (TpsInitModelArguments) arguments = {};
  GError *error = nullptr;

  arguments.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.1);
  arguments.n_parameters = static_cast<guint> (parameters.size ());
  arguments.parameters = g_new0 (TpsNamedTensor, parameters.size ());
  for (gsize i = 0; i < parameters.size (); i++)
    {
      arguments.parameters[i].name = g_strdup_printf ("parameter%" G_GSIZE_FORMAT, i);
      arguments.parameters[i].tensor = make_tensor (parameters[i]);
    }
  tps_remote_init_model (client_, &arguments, later (), &error);
  return keep_error (error);
}

bool
SharingClient::create_table (const std::string &table, gint64 rows, gint32 dim)
{
  g_auto (TpsTableSpec) spec = {};
  GError *error = nullptr;

  tps_table_spec_init (&spec, table.c_str (), rows, dim);
  tps_remote_create_table (client_, &spec, later (), &error);
  return keep_error (error);
}

std::string
SharingClient::look_up (const std::string &table, const std::vector<gint64> &ids)
{
  g_auto (TpsLookupRowsArguments) arguments = {};
  g_auto (TpsTensor) rows = {};
  GError *error = nullptr;

  arguments.table = g_strdup (table.c_str ());
  arguments.indices = make_tensor (ids);
  tps_remote_lookup_rows (client_, &arguments, later (), &rows, &error);
  return keep_error (error) ? bits_of (rows) : "";
}

bool
SharingClient::apply (const std::string &table, const std::vector<gint64> &ids, gint64 dim,
                      const Values &values)
{
  g_auto (TpsApplyRowGradientsArguments) arguments = {};
  GError *error = nullptr;
  gint64 n = static_cast<gint64> (ids.size ());

  arguments.table = g_strdup (table.c_str ());
  arguments.gradient.kind = TPS_GRADIENT_SPARSE;
  arguments.gradient.weight = 1;
  arguments.gradient.indices = make_tensor (ids);
  arguments.gradient.values = make_tensor (TPS_DTYPE_FLOAT32, { n, dim }, values.data ());
  arguments.gradient.rows = n;
  tps_remote_apply_row_gradients (client_, &arguments, later (), &error);
  return keep_error (error);
}

bool
SharingClient::warm_up ()
{
  std::vector<gint64> ids (WARM_ROWS);
  gint64 end = in_s (60);

  for (gsize i = 0; i < ids.size (); i++)
    ids[i] = static_cast<gint64> (i);
  create_table ("warm", WARM_ROWS, 16); /* fails if another client has created the table */
  do
    {
      TpsSharingStats now = stats ();

      if (now.sent_shared.n_tensors > 0 && now.received_shared.n_tensors > 0)
        return true;
      if (look_up ("warm", ids).empty ())
        return false;
    }
  while (in_s (0) < end);
  return false;
}

TpsSharingStats
SharingClient::stats ()
{
  TpsSharingStats stats;

  tps_client_get_sharing_stats (client_, &stats);
  return stats;
}

}
