// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The reply to a call releases the slices of its arguments. It is sent when it is ready and the
// server no longer reads the slices.

#include <gtest/gtest.h>
#include <poll.h>

#include <mutex>

#include "plugin/wire/wire_tensor.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/shared_client.h"

namespace thriftps_test {
namespace {

// A service with these methods:
//
//   keep (1: Tensor)  replies at once, and reads the tensor until the test releases it
//   ping ()           replies at once
//   pull ()           replies with a tensor of 128 KiB
class Keeper
{
public:
  Keeper ()
  {
    static const TpsField keep[] = {
      { "tensor", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct, 0, 0 }, {}
    };
    static const TpsRpc rpcs[] = {
      { "Keeper", "keep", keep, nullptr },
      { "Keeper", "ping", nullptr, nullptr },
      { "Keeper", "pull", nullptr, nullptr },
    };
    static const TpsMethod methods[] = { { TPS_RIGHT_PUSH, &rpcs[0], Keep, TPS_METHOD_INLINE },
                                         { TPS_RIGHT_PUSH, &rpcs[1], Ping, TPS_METHOD_INLINE },
                                         { TPS_RIGHT_PUSH, &rpcs[2], Pull, TPS_METHOD_INLINE },
                                         {} };
    TpsService service = {};

    service.name = "Keeper";
    service.methods = methods;
    service.object = this;
    service.borrows_shared = TRUE;
    server_ = tps_server_new (nullptr);
    tps_server_add_service (server_, &service);
    EXPECT_TRUE (tps_server_listen (server_, folder_.SocketAddress ().c_str (), nullptr));
    EXPECT_TRUE (tps_server_start (server_, nullptr));
  }

  ~Keeper ()
  {
    LetGo ();
    EXPECT_TRUE (tps_server_stop (server_));
    g_object_unref (server_);
  }

  std::string
  Address () const
  {
    return folder_.SocketAddress ();
  }

  guint
  CountCalls () const
  {
    return tps_server_get_n_calls (server_);
  }

  size_t
  CountKept ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    return kept_.size ();
  }

  void
  LetGo ()
  {
    std::vector<TpsTensor> kept;
    {
      std::lock_guard<std::mutex> guard (lock_);
      kept.swap (kept_);
    }
    for (TpsTensor &tensor : kept)
      tps_tensor_clear (&tensor);
  }

private:
  static void
  Keep (TpsCall *call, gpointer object)
  {
    Keeper *keeper = static_cast<Keeper *> (object);
    TpsTensor tensor = {};

    EXPECT_TRUE (tps_call_read_arguments (call, &tensor, nullptr));
    {
      std::lock_guard<std::mutex> guard (keeper->lock_);
      keeper->kept_.push_back (tensor);
    }
    tps_call_reply (call, nullptr, nullptr);
  }

  static void
  Ping (TpsCall *call, gpointer)
  {
    tps_call_reply (call, nullptr, nullptr);
  }

  static void
  WritePulled (TpsWriter *out, gconstpointer)
  {
    static const std::vector<float> values (32768);
    TpsTensorView view = {};

    view.shape.dtype = TPS_DTYPE_FLOAT32;
    view.shape.n_dims = 1;
    view.shape.dims[0] = static_cast<gint64> (values.size ());
    view.data = const_cast<float *> (values.data ());
    tps_writer_field (out, 0, TPS_WIRE_STRUCT);
    tps_tensor_encode_borrowed (out, view);
  }

  static void
  Pull (TpsCall *call, gpointer)
  {
    tps_call_reply (call, WritePulled, nullptr);
  }

  TpsServer *server_ = nullptr;
  SocketFolder folder_;
  std::mutex lock_; // guards kept_
  std::vector<TpsTensor> kept_;
};

WriteFields
TensorField (const WriteFields &tensor)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tensor (out);
  };
}

class HandBack : public testing::Test
{
protected:
  void
  SendKeep (int seqid, gint32 dtype = 1, TpsMessageKind kind = TPS_MESSAGE_CALL)
  {
    gint64 n_elems = dtype == 6 ? 512 : 1024;

    client_->raw ().Send ("keep", seqid,
                          TensorField (SharedTensor (dtype, { n_elems }, { id_, 0, 4096 })), kind);
  }

  bool
  HasAnswer ()
  {
    struct pollfd ready = { client_->raw ().fd (), POLLIN, 0 };
    return poll (&ready, 1, 0) == 1;
  }

  Keeper keeper_;
  std::unique_ptr<SharedClient> client_ = std::make_unique<SharedClient> (keeper_.Address ());
  gint64 id_ = client_->Open (TPS_SEGMENT_REQUESTS, 4096).id;
};

TEST_F (HandBack, ComesWhenTheLastSliceIsLetGo)
{
  SendKeep (1);
  client_->raw ().Send ("ping", 2);
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 2); // overtakes the reply to `keep`
  EXPECT_EQ (keeper_.CountKept (), 1u);
  WaitUntil ([&] { return keeper_.CountCalls () == 1; }); // calls are removed after their replies
  EXPECT_FALSE (HasAnswer ());
  keeper_.LetGo ();
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 1);
}

TEST_F (HandBack, IsWaitedForByLaterAnswersOfTheSameId)
{
  SendKeep (5);
  client_->raw ().Send ("ping", 5);
  client_->raw ().Send ("ping", 6);
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 6);
  EXPECT_FALSE (HasAnswer ());
  keeper_.LetGo ();
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 5);
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 5);
}

// The reply to open_segment waits behind another reply with the same sequence id. Any reply that
// overtakes it must not name the new segment.
TEST_F (HandBack, NoReplyNamesASegmentThatTheClientDoesNotKnow)
{
  SendKeep (5);
  client_->raw ().Send ("Memory:open_segment", 5, OpenFields (1, TPS_SEGMENT_ANSWERS, 1 << 20));
  WaitUntil ([&] { return CountMappings () >= 2; });
  client_->raw ().Send ("pull", 6);
  Message early = client_->raw ().Receive ();
  EXPECT_EQ (early->seqid, 6);
  EXPECT_EQ (early->n_bodies, 1u) << "inline";
  keeper_.LetGo ();
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 5);
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 5);
  client_->raw ().Send ("pull", 7);
  EXPECT_EQ (client_->raw ().Receive ()->n_bodies, 0u) << "in the segment";
}

TEST_F (HandBack, IsNotWaitedForWhereIntegersWereCopied)
{
  SendKeep (1, 6);
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 1);
  EXPECT_EQ (keeper_.CountKept (), 1u);
}

TEST_F (HandBack, CountsAmongCallsWhereThereIsNoAnswer)
{
  SendKeep (1, 1, TPS_MESSAGE_ONEWAY);
  WaitUntil ([&] { return keeper_.CountKept () == 1; });
  WaitUntil ([&] { return keeper_.CountCalls () == 1; }); // calls are removed after their replies
  keeper_.LetGo ();
  WaitUntil ([&] { return keeper_.CountCalls () == 0; });
  client_->raw ().Send ("ping", 2);
  EXPECT_EQ (client_->raw ().Receive ()->seqid, 2);
}

TEST_F (HandBack, EndsTheCallOfAClientThatHasGone)
{
  SendKeep (1);
  WaitUntil ([&] { return keeper_.CountKept () == 1; });
  client_.reset ();
  WaitUntil ([&] { return keeper_.CountCalls () == 1; }); // calls are removed after their replies
  keeper_.LetGo ();
  WaitUntil ([&] { return keeper_.CountCalls () == 0; });
  WaitUntil ([&] { return CountMappings () == 0; });
}

} // namespace
} // namespace thriftps_test
