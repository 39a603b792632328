/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Two trainers and two servers over TCP. One trainer reaches one server through a proxy that cuts
 * its connection once, while many pieces are in flight. */

#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <gtest/gtest.h>

#include "plugin/trainer/trainer_links.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"
#include "runtime/trainer/pass/trainer.h"
#include "tests/integration/chunks/cutting_proxy.h"

namespace thriftps {
namespace {

constexpr gint64 SECOND_NS = G_GINT64_CONSTANT (1000000000);
constexpr guint N_TRAINERS = 2, N_SERVERS = 2;

class AveragingServer
{
public:
  AveragingServer ()
  {
    TpsPluginOptions options = {};
    GError *error = nullptr;

    options.name = "averaging";
    options.n_trainers = N_TRAINERS;
    options.round_timeout_ns = 20 * SECOND_NS;
    plugin_ = tps_plugin_new (&options, &error);
    server_ = tps_plugin_new_server (plugin_, nullptr);
    EXPECT_TRUE (tps_server_listen (server_, "127.0.0.1:0", &error));
    EXPECT_TRUE (tps_server_start (server_, &error));
  }

  ~AveragingServer ()
  {
    tps_server_stop (server_);
    g_object_unref (server_);
    tps_plugin_free (plugin_);
  }

  std::string
  address () const
  {
    return tps_server_get_addresses (server_)[0];
  }

private:
  TpsPlugin *plugin_;
  TpsServer *server_;
};

class Trainer
{
public:
  Trainer () : metrics_ (tps_metrics_new (nullptr, nullptr))
  {
    const TpsTrainerLinks links = tps_trainer_links (nullptr);

    trainer_ = tps_trainer_new (&links, metrics_);
  }

  ~Trainer ()
  {
    tps_trainer_free (trainer_);
    tps_metrics_unref (metrics_);
  }

  void
  start (guint rank, gint64 piece_bytes, const std::vector<std::string> &servers)
  {
    TpsTrainPlan *plan = tps_train_plan_new ();
    GError *error = nullptr;
    GVariantDict config;

    g_variant_dict_init (&config, nullptr);
    for (const auto &[name, value] :
         { std::pair ("num_embeddings", 64), std::pair ("embedding_dim", 32),
           std::pair ("dense_input_size", 32), std::pair ("dense_output_size", 32),
           std::pair ("dense_layers_count", 3) })
      g_variant_dict_insert (&config, name, "x", static_cast<gint64> (value));
    g_variant_dict_insert (&config, "sparse", "b", TRUE);
    g_variant_unref (plan->model_config);
    plan->model_config = g_variant_ref_sink (g_variant_dict_end (&config));
    g_free (plan->ddp_hook);
    plan->ddp_hook = g_strdup ("rpc_hook");
    g_free (plan->pass_name);
    plan->pass_name = g_strdup ("pass");
    plan->rank = rank;
    plan->world_size = N_TRAINERS;
    plan->steps_per_epoch = 2;
    plan->seed = 7;
    plan->learning_rate = 10;
    plan->piece_bytes = piece_bytes;
    plan->rpc_timeout_ns = 20 * SECOND_NS;
    for (gint64 step = 0; step < 2; step++)
      add_batch (plan, rank + 3 * step);
    for (const std::string &address : servers)
      tps_train_plan_add_server (plan, 0, address.c_str ());
    EXPECT_TRUE (tps_trainer_train (trainer_, plan, &error)) << error->message;
  }

  /* Waits for the end of the pass. Returns the digest of the parameters, or the error message. */
  std::string
  finish ()
  {
    for (;; std::this_thread::yield ())
      {
        g_auto (TpsTrainStatus) status = {};

        tps_trainer_get_status (trainer_, &status);
        if (status.state == TPS_TRAIN_SUCCEEDED)
          return std::string (reinterpret_cast<char *> (status.parameters_digest), 16);
        if (status.state != TPS_TRAIN_RUNNING)
          return status.error != nullptr ? status.error->message : "no pass";
      }
  }

private:
  static void
  add_batch (TpsTrainPlan *plan, gint64 number)
  {
    TpsTrainBatch batch = {};

    tps_tensor_init_2d (&batch.input, TPS_DTYPE_INT64, 4, 8);
    tps_tensor_init_1d (&batch.target, TPS_DTYPE_INT64, 4);
    for (gint64 i = 0; i < 32; i++)
      static_cast<gint64 *> (tps_tensor_data (&batch.input))[i] = (i * 13 + number) % 64;
    for (gint64 i = 0; i < 4; i++)
      static_cast<gint64 *> (tps_tensor_data (&batch.target))[i] = (i + number) % 32;
    tps_train_plan_take_batch (plan, &batch);
  }

  TpsMetrics *metrics_;
  TpsTrainer *trainer_;
};

/* Two trainers with new servers. Trainer 0 reaches the first server through a proxy. */
struct World
{
  World (gint64 piece_bytes, Cut cut, int at) : proxy (servers[0].address (), cut, at)
  {
    const std::string second = servers[1].address ();

    trainers[0].start (0, piece_bytes, { proxy.address (), second });
    trainers[1].start (1, piece_bytes, { servers[0].address (), second });
    digest = trainers[0].finish ();
    EXPECT_EQ (trainers[1].finish (), digest);
  }

  AveragingServer servers[N_SERVERS];
  CuttingProxy proxy;
  Trainer trainers[N_TRAINERS];
  std::string digest;
};

class LostPieces : public testing::TestWithParam<Cut>
{
};

TEST_P (LostPieces, DoNotChangeTheBits)
{
  const World whole (0, GetParam (), -1);
  int n_unbroken = 0;

  /* There are more pieces than a server reads from one connection before it replies. */
  for (int at = 1;; at += 7)
    {
      const World cut (64, GetParam (), at);

      EXPECT_EQ (cut.digest, whole.digest) << "cut at frame " << at;
      if (!cut.proxy.was_cut ())
        {
          EXPECT_GT (at, 128) << "frames of the pass were cut";
          break;
        }
      if (cut.proxy.n_connections () == 1)
        n_unbroken++;
      else
        EXPECT_EQ (cut.proxy.n_connections (), 2);
    }
  /* After the last frame, the reply may arrive before the connection is cut. */
  EXPECT_LE (n_unbroken, GetParam () == Cut::AFTER_REQUEST ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P (Cuts, LostPieces,
                          testing::Values (Cut::BEFORE_REQUEST, Cut::AFTER_REQUEST,
                                           Cut::BEFORE_ANSWER));

} // namespace
} // namespace thriftps
