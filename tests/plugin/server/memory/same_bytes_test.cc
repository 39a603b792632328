// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Every method with tensors must return the same bits, whether its tensors are inline or in shared
// memory.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/shared_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

constexpr gsize kSegmentBytes = 4 << 20;

enum class Path
{
  kTcp,
  kUnix,
  kShared
};

// All results of one run, in order.
using Transcript = std::vector<std::string>;

void
Note (Transcript *transcript, const TpsTensor &tensor)
{
  g_autofree gchar *shape = tps_shape_to_string (&tensor.shape);

  transcript->push_back (shape);
  transcript->emplace_back (static_cast<const char *> (tps_tensor_data (&tensor)),
                            tps_shape_n_bytes (&tensor.shape));
}

class Run
{
public:
  Run (Path path, Wire wire) : path_ (path)
  {
    for (int i = 0; i < 2; i++)
      {
        clients_[i] = std::make_unique<SharedClient> (
            path == Path::kTcp ? server_.Tcp () : server_.Unix (), wire);
        if (path != Path::kShared)
          continue;
        requests_[i] = clients_[i]->Open (TPS_SEGMENT_REQUESTS, kSegmentBytes);
        clients_[i]->Open (TPS_SEGMENT_ANSWERS, kSegmentBytes);
      }
  }

  Transcript
  All ()
  {
    AverageDense (TPS_DTYPE_FLOAT32);
    AverageDense (TPS_DTYPE_FLOAT64);
    AverageDense (TPS_DTYPE_BFLOAT16);
    AverageSparse ();
    TrainModel ();
    UseTables ();
    return transcript_;
  }

private:
  void
  Fill (TpsTensor *tensor)
  {
    std::uniform_int_distribution<gint64> id (0, 19999);
    std::uniform_real_distribution<float> value (-1, 1);
    gint64 n_elems = tps_shape_n_elems (&tensor->shape);

    for (gint64 i = 0; i < n_elems; i++)
      switch (tensor->shape.dtype)
        {
        case TPS_DTYPE_INT64:
          static_cast<gint64 *> (tps_tensor_data (tensor))[i] = id (dice_);
          break;
        case TPS_DTYPE_FLOAT64:
          static_cast<double *> (tps_tensor_data (tensor))[i] = value (dice_);
          break;
        case TPS_DTYPE_BFLOAT16:
          {
            float single = value (dice_);
            memcpy (static_cast<guint16 *> (tps_tensor_data (tensor)) + i,
                    reinterpret_cast<char *> (&single) + 2, 2);
            break;
          }
        default:
          static_cast<float *> (tps_tensor_data (tensor))[i] = value (dice_);
        }
  }

  void
  Make (TpsTensor *tensor, TpsDType dtype, gint64 n)
  {
    tps_tensor_init_1d (tensor, dtype, n);
    Fill (tensor);
  }

  void
  Make (TpsTensor *tensor, TpsDType dtype, gint64 n, gint64 dim)
  {
    tps_tensor_init_2d (tensor, dtype, n, dim);
    Fill (tensor);
  }

  const Segment *
  Requests (int client) const
  {
    return path_ == Path::kShared ? &requests_[client] : nullptr;
  }

  void
  Send (int client, const char *name, WriteArguments write, gconstpointer data)
  {
    int before = clients_[client]->n_placed;

    clients_[client]->Send (name, write, data, Requests (client));
    n_shared_ += clients_[client]->n_placed > before;
  }

  void
  Receive (int client, ReadResult read, gpointer target)
  {
    ASSERT_TRUE (clients_[client]->Receive (read, target)) << clients_[client]->LastError ();
  }

  static gboolean
  ReadNothing (TpsReader *, TpsWireType, gpointer, GError **)
  {
    return TRUE;
  }

  void
  Call (const char *name, WriteArguments write, gconstpointer data)
  {
    Send (0, name, write, data);
    Receive (0, ReadNothing, nullptr);
  }

  // Call it only after the results in segments have been recorded.
  void
  GiveBack ()
  {
    for (auto &client : clients_)
      client->ReleaseUsed ();
  }

  void
  Average (TpsAverageGradientArguments *arguments)
  {
    for (int i = 0; i < 2; i++)
      Send (i, "ParameterServer:average_gradient", WriteArgumentsOf<tps_average_gradient_rpc>,
            &arguments[i]);
    for (int i = 0; i < 2; i++)
      {
        g_auto (TpsGradient) average = {};

        Receive (i, ReadResultOf<tps_average_gradient_rpc>, &average);
        if (average.kind == TPS_GRADIENT_SPARSE)
          {
            Note (&transcript_, average.indices);
            Note (&transcript_, average.values);
          }
        else
          Note (&transcript_, average.dense);
        tps_average_gradient_arguments_clear (&arguments[i]);
      }
    GiveBack ();
  }

  void
  AverageDense (TpsDType dtype)
  {
    for (int round = 0; round < 3; round++)
      {
        TpsAverageGradientArguments arguments[2] = {};

        for (int i = 0; i < 2; i++)
          {
            arguments[i].trainer = i;
            arguments[i].batch = ++batch_ - i;
            arguments[i].param_loc = static_cast<gint32> (dtype);
            arguments[i].gradient.kind = TPS_GRADIENT_DENSE;
            arguments[i].gradient.weight = 1 + i;
            Make (&arguments[i].gradient.dense, dtype, 100000);
          }
        arguments[1].batch = arguments[0].batch;
        Average (arguments);
      }
  }

  void
  AverageSparse ()
  {
    TpsAverageGradientArguments arguments[2] = {};

    ++batch_;
    for (int i = 0; i < 2; i++)
      {
        arguments[i].trainer = i;
        arguments[i].batch = batch_;
        arguments[i].param_loc = 100;
        arguments[i].gradient.kind = TPS_GRADIENT_SPARSE;
        arguments[i].gradient.weight = 1;
        arguments[i].gradient.rows = 20000;
        Make (&arguments[i].gradient.indices, TPS_DTYPE_INT64, 10000);
        Make (&arguments[i].gradient.values, TPS_DTYPE_FLOAT32, 10000, 8);
      }
    Average (arguments);
  }

  void
  NoteModel (int client)
  {
    TpsModelVersion *model = nullptr;

    Receive (client, ReadResultOf<tps_get_model_rpc>, &model);
    ASSERT_NE (model, nullptr);
    for (guint i = 0; i < model->n_parameters; i++)
      Note (&transcript_, model->parameters[i].tensor);
    tps_model_version_unref (model);
  }

  void
  GetModel ()
  {
    clients_[0]->raw ().Send ("ParameterServer:get_model", 0);
    NoteModel (0);
    GiveBack ();
  }

  void
  TrainModel ()
  {
    TpsNamedTensor parameters[3] = {};
    TpsInitModelArguments init = {};
    char names[3][2] = { "a", "b", "c" };

    for (int i = 0; i < 3; i++)
      {
        parameters[i].name = names[i];
        Make (&parameters[i].tensor, TPS_DTYPE_FLOAT32, i == 2 ? 10 : 50000 * (i + 1));
      }
    init.n_parameters = 3;
    init.parameters = parameters;
    init.optimizer = Optimizer ();
    Call ("ParameterServer:init_model", WriteArgumentsOf<tps_init_model_rpc>, &init);
    GetModel ();
    for (int step = 0; step < 3; step++)
      UpdateModel (parameters, step);
    GetModel ();
    for (TpsNamedTensor &parameter : parameters)
      tps_tensor_clear (&parameter.tensor);
  }

  static TpsOptimizerSpec
  Optimizer ()
  {
    TpsOptimizerSpec spec = {};

    spec.kind = TPS_OPTIMIZER_SGD;
    spec.learning_rate = 0.1;
    spec.momentum = 0.9;
    spec.weight_decay = spec.epsilon = spec.beta1 = spec.beta2 = NAN;
    spec.l1 = spec.l2 = spec.beta = NAN;
    return spec;
  }

  void
  UpdateModel (const TpsNamedTensor *parameters, int step)
  {
    TpsTensor gradients[2][3] = {};

    for (int trainer = 0; trainer < 2; trainer++)
      {
        TpsUpdateModelArguments update = {};
        std::string name = "trainer" + std::to_string (trainer);

        for (int i = 0; i < 3; i++)
          Make (&gradients[trainer][i], TPS_DTYPE_FLOAT32, parameters[i].tensor.shape.dims[0]);
        update.trainer = trainer;
        update.gradients.n_tensors = 3;
        update.gradients.tensors = gradients[trainer];
        update.push.client = name.data ();
        update.push.sequence = step + 1;
        Send (trainer, "ParameterServer:update_and_fetch_model",
              WriteArgumentsOf<tps_update_and_fetch_model_rpc>, &update);
      }
    for (int trainer = 0; trainer < 2; trainer++)
      {
        NoteModel (trainer);
        for (TpsTensor &gradient : gradients[trainer])
          tps_tensor_clear (&gradient);
      }
    GiveBack ();
  }

  void
  UseTables ()
  {
    g_auto (TpsTableSpec) spec = {};

    tps_table_spec_init (&spec, "emb", 20000, 16);
    spec.optimizer.kind = TPS_OPTIMIZER_ADAGRAD;
    Call ("EmbeddingTable:create_table", WriteArgumentsOf<tps_create_table_rpc>, &spec);
    LookUpRows ();
    PushRows ();
    LookUpRows ();
    Bags ();
    LookUpRows ();
  }

  void
  LookUpRows ()
  {
    TpsLookupRowsArguments arguments = {};
    g_auto (TpsTensor) rows = {};
    char table[] = "emb";

    arguments.table = table;
    Make (&arguments.indices, TPS_DTYPE_INT64, 15000);
    Send (0, "EmbeddingTable:lookup_rows", WriteArgumentsOf<tps_lookup_rows_rpc>, &arguments);
    Receive (0, ReadResultOf<tps_lookup_rows_rpc>, &rows);
    Note (&transcript_, rows);
    GiveBack ();
    tps_tensor_clear (&arguments.indices);
  }

  void
  PushRows ()
  {
    TpsApplyRowGradientsArguments arguments = {};
    char table[] = "emb";

    arguments.table = table;
    arguments.gradient.kind = TPS_GRADIENT_SPARSE;
    arguments.gradient.rows = 20000;
    Make (&arguments.gradient.indices, TPS_DTYPE_INT64, 10000);
    Make (&arguments.gradient.values, TPS_DTYPE_FLOAT32, 10000, 16);
    Call ("EmbeddingTable:apply_row_gradients", WriteArgumentsOf<tps_apply_row_gradients_rpc>,
          &arguments);
    tps_gradient_clear (&arguments.gradient);
  }

  void
  Bags ()
  {
    g_auto (TpsTensor) indices = {};
    g_auto (TpsTensor) offsets = {};
    g_auto (TpsTensor) weights = {};
    g_auto (TpsTensor) gradient = {};
    TpsBagQuery queries[2] = {};
    TpsLookupBagsArguments lookup = {};
    TpsBagGradient pushed[2] = {};
    TpsApplyBagGradientsArguments push = {};
    g_auto (TpsTensorList) list = {};

    Make (&indices, TPS_DTYPE_INT64, 20000);
    Make (&weights, TPS_DTYPE_FLOAT32, 20000);
    tps_tensor_init_1d (&offsets, TPS_DTYPE_INT64, 9000);
    for (gint64 i = 0; i < 9000; i++)
      static_cast<gint64 *> (tps_tensor_data (&offsets))[i] = i * 2;
    Make (&gradient, TPS_DTYPE_FLOAT32, 9000, 16);
    for (TpsBagQuery &query : queries)
      {
        query.table = "emb";
        query.indices = tps_tensor_view (&indices);
        query.offsets = tps_tensor_view (&offsets);
        query.pooling = TPS_POOLING_MEAN;
      }
    queries[0].pooling = TPS_POOLING_SUM;
    queries[0].weights = tps_tensor_view (&weights);
    lookup.n_queries = 2;
    lookup.queries = queries;
    Send (0, "EmbeddingTable:lookup_bags", WriteArgumentsOf<tps_lookup_bags_rpc>, &lookup);
    Receive (0, ReadResultOf<tps_lookup_bags_rpc>, &list);
    for (guint i = 0; i < list.n_tensors; i++)
      Note (&transcript_, list.tensors[i]);
    GiveBack ();
    for (int i = 0; i < 2; i++)
      pushed[i] = { queries[i], tps_tensor_view (&gradient) };
    push.n_gradients = 2;
    push.gradients = pushed;
    Call ("EmbeddingTable:apply_bag_gradients", WriteArgumentsOf<tps_apply_bag_gradients_rpc>,
          &push);
  }

public:
  int
  CountSharedCalls () const
  {
    return n_shared_;
  }

  int
  CountSharedResults () const
  {
    return clients_[0]->n_resolved + clients_[1]->n_resolved;
  }

private:
  Path path_;
  PluginServer server_;
  std::unique_ptr<SharedClient> clients_[2];
  Segment requests_[2];
  std::mt19937 dice_ { 1 };
  Transcript transcript_;
  gint64 batch_ = 0;
  int n_shared_ = 0;
};

Transcript
Transcribe (Path path, Wire wire = Wire ())
{
  Run run (path, wire);
  Transcript transcript = run.All ();

  // Calls with shared tensors: 9 + 1 averages of two trainers, 3 updates of two trainers, the
  // model, and the row and bag calls.
  EXPECT_EQ (run.CountSharedCalls (), path == Path::kShared ? 20 + 6 + 1 + 6 : 0);
  EXPECT_EQ (run.CountSharedResults () > 0, path == Path::kShared);
  return transcript;
}

// EXPECT_EQ would print megabytes.
void
ExpectSame (const Transcript &a, const Transcript &b)
{
  ASSERT_EQ (a.size (), b.size ());
  for (size_t i = 0; i < a.size (); i++)
    EXPECT_TRUE (a[i] == b[i]) << "result " << i << " of " << a.size ();
}

TEST (SameBytes, OverTcpUnixSocketsAndSharedMemory)
{
  Transcript tcp = Transcribe (Path::kTcp);

  EXPECT_GT (tcp.size (), 40u);
  ExpectSame (tcp, Transcribe (Path::kUnix));
  ExpectSame (tcp, Transcribe (Path::kShared));
}

TEST (SameBytes, InEveryFormThatAPeerMaySpeak)
{
  Transcript binary = Transcribe (Path::kShared);

  ExpectSame (binary, Transcribe (Path::kShared, { TPS_PROTOCOL_COMPACT, true }));
  ExpectSame (binary, Transcribe (Path::kShared, { TPS_PROTOCOL_BINARY, false }));
}

} // namespace
} // namespace thriftps_test
