// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests clients that change their arguments in shared memory, while a model is created or updated,
// and before and during repeats. For any bytes that the server saw, its replies must stay the same,
// and each call must be applied once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/scribbler.h"
#include "tests/plugin/server/memory/shared_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

constexpr gint64 kMiB = 1 << 20;
constexpr int kInvalidArgument = 1;
constexpr int kAlreadyExists = 3;
constexpr int kDuplicate = 5;

// kSmall is the smallest size that is shared; its hash is computed on arrival. The hash of kLarge
// elements is computed during the addition.
constexpr gint64 kSmall = 16384; // elements
constexpr gint64 kLarge = 100000;

struct UnrefModel
{
  void
  operator() (TpsModelVersion *model) const
  {
    tps_model_version_unref (model);
  }
};
using Model = std::unique_ptr<TpsModelVersion, UnrefModel>;

std::string
Bytes (const TpsTensor &tensor)
{
  return std::string (static_cast<const char *> (tps_tensor_data (&tensor)),
                      tps_shape_n_bytes (&tensor.shape));
}

std::string
Bytes (const Model &model)
{
  return model != nullptr ? Bytes (model->parameters[0].tensor) : "(no model)";
}

class HostileRepeats : public testing::TestWithParam<gint64>
{
protected:
  // Sends init_model with `tensor`, which it takes. Returns the code of the reply.
  static int
  Init (SharedClient *client, const Segment *segment, TpsTensor tensor)
  {
    TpsNamedTensor parameter = { g_strdup ("w"), tensor };
    TpsInitModelArguments init = {};

    init.n_parameters = 1;
    init.parameters = &parameter;
    init.optimizer.kind = TPS_OPTIMIZER_SGD;
    init.optimizer.learning_rate = 1;
    client->Send ("ParameterServer:init_model", WriteArgumentsOf<tps_init_model_rpc>, &init,
                  segment);
    tps_named_tensor_clear (&parameter);
    return ErrorCode (client->raw ().Receive ());
  }

  // Gets the model over the connection without shared memory.
  Model
  GetModel ()
  {
    TpsModelVersion *model = nullptr;

    reader_.raw ().Send ("ParameterServer:get_model", 0);
    EXPECT_TRUE (reader_.Receive (ReadResultOf<tps_get_model_rpc>, &model)) << reader_.LastError ();
    return Model (model);
  }

  void
  SendUpdate (gint64 sequence, float value, int seqid = 0)
  {
    TpsUpdateModelArguments update = {};
    TpsTensor gradient = MakeVector (GetParam (), value);

    update.gradients.n_tensors = 1;
    update.gradients.tensors = &gradient;
    update.push = { g_strdup ("evil"), sequence };
    client_.Send ("ParameterServer:update_and_fetch_model",
                  WriteArgumentsOf<tps_update_and_fetch_model_rpc>, &update, &segment_, seqid);
    tps_tensor_clear (&gradient);
    tps_push_id_clear (&update.push);
  }

  // Returns null if there is an error, which LastError() returns.
  Model
  ReceiveModel ()
  {
    TpsModelVersion *model = nullptr;

    client_.Receive (ReadResultOf<tps_get_model_rpc>, &model);
    return Model (model);
  }

  Model
  Update (gint64 sequence, float value)
  {
    SendUpdate (sequence, value);
    return ReceiveModel ();
  }

  void
  SendAverage (SharedClient *client, const Segment *segment, gint32 trainer, gint64 batch,
               float value, int seqid = 0)
  {
    TpsAverageGradientArguments arguments = {};

    arguments.trainer = trainer;
    arguments.batch = batch;
    arguments.gradient.kind = TPS_GRADIENT_DENSE;
    arguments.gradient.weight = 1;
    arguments.gradient.dense = MakeVector (GetParam (), value);
    client->Send ("ParameterServer:average_gradient", WriteArgumentsOf<tps_average_gradient_rpc>,
                  &arguments, segment, seqid);
    tps_average_gradient_arguments_clear (&arguments);
  }

  // Returns "" if there is an error.
  static std::string
  ReceiveAverage (SharedClient *client)
  {
    g_auto (TpsGradient) average = {};

    return client->Receive (ReadResultOf<tps_average_gradient_rpc>, &average)
               ? Bytes (average.dense)
               : "";
  }

  // Makes another process overwrite the arguments, which are at the start of the segment.
  void
  StartScribbling ()
  {
    scribbler_ = std::make_unique<Scribbler> (segment_.data, GetParam () * sizeof (float));
  }

  PluginServer server_ { {}, 1 };
  SharedClient client_ { server_.Unix () };
  SharedClient reader_ { server_.Tcp () };
  const Segment &segment_ = client_.Open (TPS_SEGMENT_REQUESTS, kMiB);
  std::unique_ptr<Scribbler> scribbler_;
};

TEST_P (HostileRepeats, AModelDoesNotChangeAfterTheReplyToInitModel)
{
  int n_others = 0;

  StartScribbling ();
  for (int i = 0; i < 15; i++)
    {
      ASSERT_EQ (ErrorCode (client_.raw ().Call ("ParameterServer:reset_state")), 0);
      ASSERT_EQ (Init (&client_, &segment_, MakeVector (GetParam (), 1)), 0);
      std::string model = Bytes (GetModel ());
      int repeated = Init (&client_, &segment_, MakeVector (GetParam (), 1));
      EXPECT_THAT (repeated, testing::AnyOf (0, kAlreadyExists));
      n_others += repeated == kAlreadyExists;
      EXPECT_EQ (model == Bytes (GetModel ()), true) << "the model has changed";
    }
  EXPECT_EQ (client_.n_placed, 30);
  std::printf ("%d of 15 repeats had changed\n", n_others);
}

// Later calls of other trainers must be compared with the stored model, not with the segment before
// or after the copy.
TEST_P (HostileRepeats, AModelIsKnownAgainByItsOwnBytes)
{
  StartScribbling ();
  for (int i = 0; i < 15; i++)
    {
      TpsTensor same = {};

      ASSERT_EQ (ErrorCode (client_.raw ().Call ("ParameterServer:reset_state")), 0);
      ASSERT_EQ (Init (&client_, &segment_, MakeVector (GetParam (), 1)), 0);
      tps_tensor_init_ref (&same, &GetModel ()->parameters[0].tensor);
      EXPECT_EQ (Init (&reader_, nullptr, same), 0);
    }
}

TEST_P (HostileRepeats, AnUpdatedModelDoesNotChangeAfterItsReply)
{
  ASSERT_EQ (Init (&reader_, nullptr, MakeVector (GetParam (), 0)), 0);
  StartScribbling ();
  for (gint64 i = 1; i <= 40; i++)
    {
      Model answered = Update (i, 1);

      ASSERT_NE (answered, nullptr) << client_.LastError ();
      EXPECT_EQ (answered->version, i + 1);
      for (int again = 0; again < 2; again++)
        EXPECT_EQ (Bytes (GetModel ()) == Bytes (answered), true) << "the model has changed";
    }
  EXPECT_EQ (client_.n_placed, 40);
}

TEST_P (HostileRepeats, AnUpdateThatIsSentAgainWithOtherBytesIsADuplicate)
{
  ASSERT_EQ (Init (&reader_, nullptr, MakeVector (GetParam (), 0)), 0);
  Model first = Update (7, 1);

  ASSERT_NE (first, nullptr) << client_.LastError ();
  for (int i = 0; i < 3; i++)
    {
      SendUpdate (7, 2);
      EXPECT_EQ (ErrorCode (client_.raw ().Receive ()), kDuplicate);
      Model same = Update (7, 1);
      ASSERT_NE (same, nullptr) << client_.LastError ();
      EXPECT_EQ (same->version, 2);
      EXPECT_EQ (Bytes (same) == Bytes (first), true);
    }
  EXPECT_EQ (GetModel ()->version, 2);
}

// The first update is applied with some bytes. The repeats have the same bytes or others.
TEST_P (HostileRepeats, AnUpdateThatChangesWhileItIsSentAgainIsAppliedOnce)
{
  int n_refused = 0;

  ASSERT_EQ (Init (&reader_, nullptr, MakeVector (GetParam (), 0)), 0);
  StartScribbling ();
  for (gint64 i = 1; i <= 20; i++)
    {
      for (int seqid = 1; seqid <= 4; seqid++)
        SendUpdate (i, 1, seqid);
      int n_applied = 0;
      for (int n = 0; n < 4; n++)
        {
          Message answer = client_.raw ().Receive ();
          int code = ErrorCode (answer);
          n_applied += code == 0;
          EXPECT_THAT (code, testing::AnyOf (0, kDuplicate)) << ErrorText (answer);
          n_refused += code != 0;
        }
      EXPECT_GE (n_applied, 1);
      ASSERT_EQ (GetModel ()->version, i + 1);
    }
  std::printf ("%d of 60 repeats had changed\n", n_refused);
}

TEST_P (HostileRepeats, AGradientThatIsSentAgainWithOtherBytesIsRefused)
{
  SendAverage (&client_, &segment_, 0, 1, 3);
  std::string first = ReceiveAverage (&client_);

  ASSERT_NE (first, "") << client_.LastError ();
  for (int i = 0; i < 3; i++)
    {
      SendAverage (&client_, &segment_, 0, 1, 4);
      EXPECT_EQ (ErrorCode (client_.raw ().Receive ()), kInvalidArgument);
      SendAverage (&client_, &segment_, 0, 1, 3);
      EXPECT_EQ (ReceiveAverage (&client_) == first, true) << client_.LastError ();
    }
}

TEST_P (HostileRepeats, AnAverageOfGradientsThatChangeIsOneForAll)
{
  PluginServer server ({}, 2);
  SharedClient evil (server.Unix ()), honest (server.Tcp ());
  const Segment &segment = evil.Open (TPS_SEGMENT_REQUESTS, kMiB);
  Scribbler scribbler (segment.data, GetParam () * sizeof (float));

  for (gint64 batch = 1; batch <= 20; batch++)
    {
      SendAverage (&evil, &segment, 0, batch, 3, 1);
      SendAverage (&evil, &segment, 0, batch, 3, 2); // its bytes change while it waits
      SendAverage (&honest, nullptr, 1, batch, 5);
      std::string average = ReceiveAverage (&honest);
      ASSERT_NE (average, "") << honest.LastError ();
      int n_answered = 0;
      for (int n = 0; n < 2; n++)
        {
          std::string other = ReceiveAverage (&evil);
          n_answered += other != "";
          EXPECT_TRUE (other == "" || other == average) << "trainers got other averages";
        }
      EXPECT_GE (n_answered, 1) << evil.LastError ();
    }
}

INSTANTIATE_TEST_SUITE_P (Sizes, HostileRepeats, testing::Values (kSmall, kLarge),
                          [] (const auto &of) { return std::to_string (of.param) + "Elements"; });

/* ---- tables --------------------------------------------------------------------------------- */

class HostileRowPushes : public testing::Test
{
protected:
  // Both the ids and the values are large enough to be shared.
  static constexpr gint64 kRows = 8192;
  static constexpr gint64 kDim = 2;

  HostileRowPushes ()
  {
    g_auto (TpsTableSpec) spec = {};

    tps_table_spec_init (&spec, table_, kRows, kDim);
    spec.initializer.kind = TPS_INITIALIZER_ZEROS;
    spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
    client_.Send ("EmbeddingTable:create_table", WriteArgumentsOf<tps_create_table_rpc>, &spec,
                  nullptr);
    EXPECT_EQ (ErrorCode (client_.raw ().Receive ()), 0);
  }

  static TpsTensor
  MakeIds ()
  {
    TpsTensor ids = {};

    tps_tensor_init_1d (&ids, TPS_DTYPE_INT64, kRows);
    for (gint64 i = 0; i < kRows; i++)
      static_cast<gint64 *> (tps_tensor_data (&ids))[i] = i;
    return ids;
  }

  // Sends a push that adds `value` to each element.
  void
  Send (gint64 sequence, float value, int seqid = 0)
  {
    TpsApplyRowGradientsArguments push = {};
    TpsTensor values = MakeVector (kRows * kDim, -value);

    values.shape.n_dims = 2;
    values.shape.dims[0] = kRows;
    values.shape.dims[1] = kDim;
    push.table = table_;
    push.gradient.kind = TPS_GRADIENT_SPARSE;
    push.gradient.weight = 1;
    push.gradient.rows = kRows;
    push.gradient.indices = MakeIds ();
    push.gradient.values = values;
    push.push = { client_name_, sequence };
    client_.Send ("EmbeddingTable:apply_row_gradients",
                  WriteArgumentsOf<tps_apply_row_gradients_rpc>, &push, &segment_, seqid);
    tps_gradient_clear (&push.gradient);
  }

  int
  Push (gint64 sequence, float value)
  {
    Send (sequence, value);
    return ErrorCode (client_.raw ().Receive ());
  }

  std::string
  Rows ()
  {
    TpsLookupRowsArguments arguments = {};
    g_auto (TpsTensor) rows = {};

    arguments.table = table_;
    arguments.indices = MakeIds ();
    client_.Send ("EmbeddingTable:lookup_rows", WriteArgumentsOf<tps_lookup_rows_rpc>, &arguments,
                  nullptr);
    EXPECT_TRUE (client_.Receive (ReadResultOf<tps_lookup_rows_rpc>, &rows))
        << client_.LastError ();
    tps_tensor_clear (&arguments.indices);
    return Bytes (rows);
  }

  static std::string
  AllRows (float value)
  {
    g_auto (TpsTensor) rows = MakeVector (kRows * kDim, value);

    return Bytes (rows);
  }

  PluginServer server_ { {}, 1 };
  SharedClient client_ { server_.Unix () };
  const Segment &segment_ = client_.Open (TPS_SEGMENT_REQUESTS, kMiB);
  char table_[4] = "emb";
  char client_name_[5] = "evil";
};

TEST_F (HostileRowPushes, ThatAreSentAgainWithOtherBytesAreDuplicates)
{
  ASSERT_EQ (Push (7, 1), 0);
  EXPECT_EQ (client_.n_placed, 2);
  for (int i = 0; i < 3; i++)
    {
      EXPECT_EQ (Push (7, 2), kDuplicate);
      EXPECT_EQ (Push (7, 1), 0);
      EXPECT_EQ (Rows () == AllRows (1), true) << "applied again";
    }
  EXPECT_EQ (Push (8, 2), 0);
  EXPECT_EQ (Rows () == AllRows (3), true);
}

// Ids outside of the table are refused. A push is either applied or refused, and a refused push
// must not be remembered.
TEST_F (HostileRowPushes, ThatChangeWhileTheyAreSentAgainHarmOnlyTheirValues)
{
  {
    Scribbler scribbler (segment_.data, kRows * sizeof (gint64) * 2);

    for (gint64 i = 1; i <= 20; i++)
      {
        for (int seqid = 1; seqid <= 4; seqid++)
          Send (i, 1, seqid);
        for (int n = 0; n < 4; n++)
          {
            Message answer = client_.raw ().Receive ();
            EXPECT_THAT (ErrorCode (answer), testing::AnyOf (0, kInvalidArgument, kDuplicate))
                << ErrorText (answer);
          }
      }
  }
  std::string rows = Rows ();
  EXPECT_EQ (rows.size (), static_cast<size_t> (kRows * kDim * 4));
  EXPECT_EQ (Push (21, 1), 0);
  EXPECT_THAT (Push (21, 2), kDuplicate);
}

} // namespace
} // namespace thriftps_test
