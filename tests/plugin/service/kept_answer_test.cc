/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests replies that exceed a frame: which service keeps them, and which error the client gets.
 * Their bytes are never read, so they take no memory. */

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "plugin/service/dispatch.h"
#include "runtime/base/error.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {
namespace {

constexpr gsize VAST_BYTES = (gsize) 3 << 30;

class KeptAnswer : public testing::Test
{
protected:
  KeptAnswer ()
  {
    vast = mmap (nullptr, VAST_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                 0);
  }
  ~KeptAnswer () override
  {
    tps_writer_free (kept);
    munmap (vast, VAST_BYTES);
  }

  static void
  write_vast (TpsWriter *out, gconstpointer data)
  {
    tps_writer_field (out, 0, TPS_WIRE_BINARY);
    tps_writer_binary_borrowed (out, data, VAST_BYTES);
  }

  static void
  handle (TpsCall *call, gpointer service)
  {
    tps_call_reply (call, write_vast, static_cast<KeptAnswer *> (service)->vast);
  }

  static gboolean
  keep (gpointer object, TpsCall *call, TpsWriter *answer, gchar **name, GError **error)
  {
    auto self = static_cast<KeptAnswer *> (object);

    if (self->is_full)
      {
        g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "full");
        return FALSE;
      }
    self->kept = answer;
    *name = g_strdup ("the-name");
    return TRUE;
  }

  static void
  finish (gpointer carried, TpsWriter *reply)
  {
    auto self = static_cast<KeptAnswer *> (carried);
    guint n_pieces;

    tps_writer_get_pieces (reply, &n_pieces, &self->n_reply_bytes);
    if (self->n_reply_bytes < 10000)
      self->reply = join_pieces (reply);
    tps_writer_free (reply);
  }

  /* Stores the reply to a call of "Vast:get". */
  void
  call (TpsProtocolKind protocol, bool transferred = false)
  {
    static const TpsRpc rpcs[] = {
      { "Vast", "get", nullptr, nullptr },
    };
    static const TpsMethod methods[] = {
      { TPS_RIGHT_PUSH, &rpcs[0], handle, TPS_METHOD_INLINE },
      {},
    };
    static TpsCarrierOps ops;
    TpsService service = {};
    TpsMessage *message = tps_message_new ();

    ops.may_wait = [] (gpointer) -> gboolean { return TRUE; };
    ops.finish = finish;
    service.name = "Vast";
    service.methods = methods;
    service.object = this;
    TpsServiceHooks hooks = {};
    hooks.keep_answer = has_keeper ? keep : nullptr;
    service.hooks = &hooks;
    g_autoptr (TpsDispatcher) dispatcher = tps_dispatcher_new (&service, 1, nullptr, nullptr);
    message->kind = TPS_MESSAGE_CALL;
    message->protocol = protocol;
    message->framed = !transferred;
    message->transferred = transferred;
    tps_message_set_name (message, "Vast:get");
    tps_dispatcher_handle (dispatcher, message, nullptr, nullptr, &ops, this);
  }

  void *vast;
  bool has_keeper = true, is_full = false;
  TpsWriter *kept = nullptr;
  gsize n_reply_bytes = 0;
  std::string reply;
};

TEST_F (KeptAnswer, waitsUnderTheNameInTheError)
{
  guint n_pieces;
  gsize n_bytes;

  call (TPS_PROTOCOL_BINARY);
  ASSERT_NE (kept, nullptr);
  tps_writer_get_pieces (kept, &n_pieces, &n_bytes);
  EXPECT_GT (n_bytes, VAST_BYTES);
  EXPECT_NE (reply.find ("the-name"), std::string::npos);
}

TEST_F (KeptAnswer, isAnErrorWithoutAKeeper)
{
  has_keeper = false;
  call (TPS_PROTOCOL_BINARY);
  EXPECT_NE (reply.find ("at most 2147483647"), std::string::npos) << reply;
}

TEST_F (KeptAnswer, isAnErrorWhereThereIsNoRoom)
{
  is_full = true;
  call (TPS_PROTOCOL_BINARY);
  EXPECT_NE (reply.find ("full"), std::string::npos) << reply;
  EXPECT_EQ (kept, nullptr);
}

TEST_F (KeptAnswer, cannotBeEncodedInTheCompactProtocol)
{
  call (TPS_PROTOCOL_COMPACT);
  EXPECT_EQ (kept, nullptr);
  EXPECT_NE (reply.find ("compact"), std::string::npos) << reply;
}

TEST_F (KeptAnswer, ofACallInChunksIsAnAnswerAsAnyOther)
{
  call (TPS_PROTOCOL_BINARY, true);
  EXPECT_EQ (kept, nullptr);
  EXPECT_GT (n_reply_bytes, VAST_BYTES);
}

} // namespace
} // namespace thriftps
