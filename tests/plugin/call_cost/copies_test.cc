// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Large tensors are received into their final memory and sent without a copy. On the server,
// recvmsg() fills the memory that the handler sees, and the reply is sent from that memory. On the
// client, the caller gets the memory that recvmsg() filled.
//
// Over TLS, OpenSSL copies each byte once on each side, between the tensor's memory and a record.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/plugin/call_cost/moved.h"
#include "tests/plugin/call_cost/tensor_service.h"
#include "tests/plugin/net/tls/certificates.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

// The first bytes of a tensor are copied if they arrive together with the end of the previous
// message or with the head of their own. This is at most one receive of the size used before the
// type of the data is known.
constexpr size_t kChunk = 4096;

// A small piece shares its TLS record with a part of the next piece, and both are copied together.
// This happens to the head of a message with the start of its tensor, and to the end of the tensor
// with the tail of the message.
constexpr size_t kRecord = 16384;

struct Seen
{
  const void *data;
  Moved moved;
};

// Transport, protocol, and number of elements.
using Params = std::tuple<const char *, TpsProtocolKind, gint64>;

class CopiesTest : public ServerTest, public testing::WithParamInterface<Params>
{
protected:
  static bool
  IsEncrypted ()
  {
    return strcmp (std::get<0> (GetParam ()), "tls") == 0;
  }

  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    if (IsEncrypted ())
      MakeTls ();
    options.tls = tls_;
    return options;
  }

  // Both sides use one certificate and trust its authority.
  void
  MakeTls ()
  {
    g_autofree gchar *folder = g_dir_make_tmp ("tps-copies-XXXXXX", nullptr);
    std::string certificate = std::string (folder) + "/certificate";
    std::string authorities = std::string (folder) + "/authorities";
    Authority authority ("authority");
    TpsTlsOptions options = {};
    g_autoptr (GError) error = nullptr;
    authority.Write (authorities);
    authority.Issue (certificate);
    options.certificate = certificate.c_str ();
    tls_ = tps_tls_new (&options, &error);
    ASSERT_NE (tls_, nullptr) << error->message;
    options.certificate = nullptr;
    options.authorities = authorities.c_str ();
    client_tls_ = tps_tls_new (&options, &error);
    ASSERT_NE (client_tls_, nullptr) << error->message;
    unlink (certificate.c_str ());
    unlink (authorities.c_str ());
    rmdir (folder);
  }

  void
  AddServices () override
  {
    TpsService service = tensors_.Get ();
    tensors_.on_tensor = [this] (const TpsTensor &tensor) {
      seen_.push_back ({ tps_tensor_data (&tensor), MovedHere (tensor) });
    };
    tps_server_add_service (server_, &service);
  }

  void
  SetUp () override
  {
    auto [path, protocol, n_elems] = GetParam ();
    ServerTest::SetUp ();
    client_ = std::make_unique<TensorClient> (strcmp (path, "unix") == 0 ? unix_ : tcp_, false,
                                              protocol, client_tls_);
    tps_tensor_init_1d (&tensor_, TPS_DTYPE_FLOAT32, n_elems);
    for (gint64 i = 0; i < n_elems; i++)
      static_cast<float *> (tps_tensor_data (&tensor_))[i] = (float) i;
    n_bytes_ = tps_shape_n_bytes (&tensor_.shape);
  }

  void
  TearDown () override
  {
    tps_tensor_clear (&tensor_);
    client_.reset ();
    ServerTest::TearDown ();
    g_clear_pointer (&client_tls_, tps_tls_unref);
    g_clear_pointer (&tls_, tps_tls_unref);
  }

  static Moved
  MovedHere (const TpsTensor &tensor)
  {
    return MovedIn (tps_tensor_data (&tensor), tps_shape_n_bytes (&tensor.shape));
  }

  // The reply may arrive before the server thread has recorded its work. After another call, all
  // earlier work of that thread is recorded.
  void
  SettleServer ()
  {
    g_auto (TpsTensor) small = {};
    tps_tensor_init_1d (&small, TPS_DTYPE_FLOAT32, 1);
    static_cast<float *> (tps_tensor_data (&small))[0] = 0;
    client_->Push (small);
  }

  void
  ExpectReceivedHere (const Seen &seen)
  {
    EXPECT_EQ (reinterpret_cast<uintptr_t> (seen.data) % TPS_BUFFER_ALIGNMENT, 0u);
    EXPECT_GE (seen.moved.received + kChunk, n_bytes_) << "received elsewhere, and copied";
    EXPECT_LE (seen.moved.received, n_bytes_);
  }

  // The whole tensor must be sent from its memory, except for pieces that share a TLS record with
  // others.
  void
  ExpectSent (size_t n_sent)
  {
    EXPECT_LE (n_sent, n_bytes_);
    EXPECT_GE (n_sent + (IsEncrypted () ? 2 * kRecord : 0), n_bytes_);
  }

  // Returns the number of bytes that a push may copy, on both sides together. OpenSSL copies each
  // byte once on each side, and moves a few hundred bytes of each record that it has read in
  // advance.
  size_t
  MaxCopied () const
  {
    return IsEncrypted () ? 2 * n_bytes_ + n_bytes_ / 32 + 2 * kRecord : 2 * kChunk;
  }

  TpsTls *tls_ = nullptr;
  TpsTls *client_tls_ = nullptr;
  TensorService tensors_;
  std::unique_ptr<TensorClient> client_;
  TpsTensor tensor_ = {};
  size_t n_bytes_ = 0;
  std::vector<Seen> seen_; // by calls of the handler
};

TEST_P (CopiesTest, AHandlerGetsTheReceivedBytesWithoutACopy)
{
  for (int i = 0; i < 3; i++)
    {
      ForgetMoved ();
      seen_.clear ();
      client_->Push (tensor_);
      ASSERT_EQ (seen_.size (), 1u);
      ExpectReceivedHere (seen_[0]);
      EXPECT_NE (seen_[0].data, tps_tensor_data (&tensor_));
    }
}

TEST_P (CopiesTest, APushIsCopiedByOpenSslOnly)
{
  client_->Push (tensor_); // the first push also sets up the connection
  for (int i = 0; i < 3; i++)
    {
      ForgetMoved ();
      client_->Push (tensor_);
      EXPECT_LE (CopiedBytes (), MaxCopied ());
    }
}

TEST_P (CopiesTest, TensorsAreSentFromWhereTheyLie)
{
  for (int i = 0; i < 3; i++)
    {
      g_auto (TpsTensor) answer = {};
      ForgetMoved ();
      seen_.clear ();
      client_->Echo (tensor_, &answer);
      SettleServer ();
      ASSERT_EQ (seen_.size (), 2u);
      SCOPED_TRACE ("by the client, then by the server");
      ExpectSent (MovedHere (tensor_).sent);
      ExpectSent (MovedIn (seen_[0].data, n_bytes_).sent);
    }
}

TEST_P (CopiesTest, ACallerGetsTheReceivedBytesWithoutACopy)
{
  for (int i = 0; i < 3; i++)
    {
      g_auto (TpsTensor) answer = {};
      ForgetMoved ();
      client_->Echo (tensor_, &answer);
      ExpectReceivedHere ({ tps_tensor_data (&answer), MovedHere (answer) });
      EXPECT_EQ (memcmp (tps_tensor_data (&answer), tps_tensor_data (&tensor_), n_bytes_), 0);
    }
}

INSTANTIATE_TEST_SUITE_P (Paths, CopiesTest,
                          testing::Combine (testing::Values ("tcp", "unix", "tls"),
                                            testing::Values (TPS_PROTOCOL_BINARY,
                                                             TPS_PROTOCOL_COMPACT),
                                            testing::Values (16384, 16385, 1 << 20)),
                          [] (const auto &of) {
                            bool compact = std::get<1> (of.param) == TPS_PROTOCOL_COMPACT;
                            return std::string (std::get<0> (of.param))
                                   + (compact ? "Compact" : "Binary")
                                   + std::to_string (std::get<2> (of.param));
                          });

} // namespace
} // namespace thriftps_test
