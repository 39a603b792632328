/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server with a small frame limit that echoes its argument, and a client for it.
 *
 *   echo (1: binary)   returns the same bytes, without a copy
 *   hold (1: binary)   returns the same bytes when the test releases it
 *   kept (1: binary)   stores the reply, and returns the name under which it is kept */

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/client/client.h"
#include "plugin/server/server.h"
#include "plugin/service/chunks/chunk_service.h"
#include "plugin/wire/wire_chunks.h"
#include "plugin/wire/wire_failure.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"
#include "tests/plugin/client/call_sync.h"

namespace thriftps {

constexpr gsize FRAME_BYTES = 4096;
constexpr gsize ANSWER_CHUNK_BYTES = 3000;

inline std::string
pattern (gsize n_bytes, guint32 seed = 1)
{
  std::string bytes (n_bytes, '\0');

  for (gsize i = 0; i < n_bytes; i++)
    {
      seed = seed * 1664525 + 1013904223;
      bytes[i] = static_cast<char> (seed >> 24);
    }
  return bytes;
}

inline gint64
later (double seconds = 60)
{
  auto now = std::chrono::steady_clock::now ().time_since_epoch ();

  return std::chrono::nanoseconds (now).count () + static_cast<gint64> (seconds * 1e9);
}

class EchoServer
{
public:
  EchoServer ()
  {
    TpsServerOptions options = {};
    TpsChunksOptions chunk_options = {};

    options.max_frame_bytes = FRAME_BYTES;
    options.n_io_threads = 2;
    options.n_workers = 3;
    server_ = tps_server_new (&options);
    chunk_options.workers = tps_server_get_workers (server_);
    chunk_options.answer_chunk_bytes = ANSWER_CHUNK_BYTES;
    chunk_options.max_bytes = 64 << 20;
    chunks_ = tps_chunks_new (&chunk_options);
    TpsService services[] = { service (), node () };
    EXPECT_TRUE (tps_chunks_set_services (chunks_, services, 2, nullptr, nullptr));
    TpsService chunks = tps_chunk_service (chunks_);
    for (const TpsService *each : { &services[0], &services[1], &chunks })
      tps_server_add_service (server_, each);
    EXPECT_TRUE (tps_server_listen (server_, "127.0.0.1:0", nullptr));
    EXPECT_TRUE (tps_server_start (server_, nullptr));
  }
  ~EchoServer ()
  {
    release ();
    tps_server_stop (server_);
    g_object_unref (server_);
    tps_chunks_free (chunks_);
  }

  std::string
  address () const
  {
    return tps_server_get_addresses (server_)[0];
  }

  void
  wait_for_held (gsize n)
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [&] { return held_.size () >= n; });
  }

  /* Replies to all held calls. */
  void
  release ()
  {
    std::vector<TpsCall *> held;

    {
      std::lock_guard<std::mutex> guard (lock_);
      held.swap (held_);
    }
    for (TpsCall *call : held)
      echo (call, this);
  }

  int
  n_calls ()
  {
    std::lock_guard<std::mutex> guard (lock_);

    return n_calls_;
  }

  TpsServer *
  server ()
  {
    return server_;
  }

  TpsService
  chunk_service ()
  {
    return tps_chunk_service (chunks_);
  }

private:
  static void
  write_view (TpsWriter *out, gconstpointer data)
  {
    auto view = static_cast<const TpsBytesView *> (data);

    tps_writer_field (out, 0, TPS_WIRE_BINARY);
    if (view->buffer != nullptr)
      tps_writer_binary_buffer (out, view->buffer, 0, view->n_bytes);
    else
      tps_writer_binary (out, view->data, view->n_bytes);
  }

  static void
  echo (TpsCall *call, gpointer)
  {
    TpsBytesView view = read_argument (call);

    tps_call_reply (call, write_view, &view);
  }

  static void
  count_and_echo (TpsCall *call, gpointer service)
  {
    auto self = static_cast<EchoServer *> (service);

    {
      std::lock_guard<std::mutex> guard (self->lock_);
      self->n_calls_++;
    }
    echo (call, service);
  }

  static void
  hold (TpsCall *call, gpointer service)
  {
    auto self = static_cast<EchoServer *> (service);
    std::lock_guard<std::mutex> guard (self->lock_);

    self->n_calls_++;
    self->held_.push_back (call);
    self->changed_.notify_all ();
  }

  static TpsBytesView
  read_argument (TpsCall *call)
  {
    TpsBytesView view = {};
    TpsWireType type;
    TpsReader in;
    gint16 id;

    tps_reader_init (&in, call->message);
    if (tps_reader_field (&in, &id, &type) && type == TPS_WIRE_BINARY)
      view = tps_reader_binary (&in);
    return view;
  }

  /* Writes a ServiceError with `transfer`, as the server does for a reply that exceeds a frame. */
  static void
  write_transfer (TpsWriter *out, gconstpointer name)
  {
    TpsServiceError failure = {};

    failure.code = TPS_ERROR_RESOURCE_EXHAUSTED - TPS_ERROR_WIRE_BASE;
    failure.message = const_cast<gchar *> ("too long for a frame");
    failure.transfer = static_cast<gchar *> (const_cast<gpointer> (name));
    tps_field_write (&tps_failure_field, out, &failure);
  }

  static void
  keep (TpsCall *call, gpointer service)
  {
    TpsService chunks = tps_chunk_service (static_cast<EchoServer *> (service)->chunks_);
    TpsWriter *answer = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
    TpsBytesView view = read_argument (call);
    g_autofree gchar *name = nullptr;

    tps_writer_message_begin (answer, "kept", TPS_MESSAGE_REPLY, 1);
    tps_writer_struct_begin (answer);
    write_view (answer, &view);
    tps_writer_struct_end (answer);
    EXPECT_TRUE (tps_writer_message_end_transferred (answer, nullptr));
    EXPECT_TRUE (chunks.hooks->keep_answer (chunks.object, call, answer, &name, nullptr));
    tps_call_reply (call, write_transfer, name);
  }

  static void
  shut_down (gpointer service)
  {
    static_cast<EchoServer *> (service)->release ();
  }

  static void
  describe (TpsCall *call, gpointer)
  {
    TpsNodeInfo info = {};

    info.name = const_cast<gchar *> ("echo");
    info.version = const_cast<gchar *> ("0");
    info.max_frame_bytes = FRAME_BYTES;
    tps_call_reply_value (call, &info);
  }

  TpsService
  service ()
  {
    static const TpsRpc rpcs[] = {
      { "Echo", "echo", nullptr, nullptr },
      { "Echo", "work", nullptr, nullptr },
      { "Echo", "hold", nullptr, nullptr },
      { "Echo", "kept", nullptr, nullptr },
    };
    static const TpsMethod methods[] = {
      { TPS_RIGHT_PUSH, &rpcs[0], count_and_echo, TPS_METHOD_INLINE },
      { TPS_RIGHT_PUSH, &rpcs[1], count_and_echo, TPS_METHOD_ON_WORKER },
      { TPS_RIGHT_PUSH, &rpcs[2], hold, TPS_METHOD_INLINE },
      { TPS_RIGHT_PUSH, &rpcs[3], keep, TPS_METHOD_INLINE },
      {},
    };
    TpsService result = {};

    result.name = "Echo";
    result.methods = methods;
    result.object = this;
    result.shut_down = shut_down;
    return result;
  }

  static TpsService
  node ()
  {
    static const TpsMethod methods[] = {
      { TPS_RIGHT_PUSH, &tps_describe_rpc, describe, TPS_METHOD_INLINE }, {}
    };
    TpsService result = {};

    result.name = "Node";
    result.methods = methods;
    return result;
  }

  TpsServer *server_;
  TpsChunks *chunks_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<TpsCall *> held_;
  int n_calls_ = 0;
};

class EchoClient
{
public:
  explicit EchoClient (const std::string &address, TpsProtocolKind protocol = TPS_PROTOCOL_BINARY)
  {
    TpsClientOptions options = {};

    options.address = address.c_str ();
    options.ask_bytes = FRAME_BYTES / 2;
    options.protocol = protocol;
    client_ = tps_client_new (&options, nullptr);
  }
  ~EchoClient ()
  {
    tps_client_free (client_);
    g_clear_error (&error);
  }

  /* Makes a call and returns the reply. If the call fails, sets `error` and returns "". */
  std::string
  send (const std::string &bytes, const char *method = "echo", gint64 deadline_ns = later ())
  {
    Answer answer { this, "" };

    g_clear_error (&error);
    tps_client_call_sync (client_, "Echo", method, write, &bytes, deadline_ns, read, &answer,
                          &error);
    return answer.bytes;
  }

  TpsClient *
  get ()
  {
    return client_;
  }

  GError *error = nullptr;
  std::function<void ()> on_read = [] {}; /* called while the reply exists */

private:
  struct Answer
  {
    EchoClient *client;
    std::string bytes;
  };

  static void
  write (TpsWriter *out, gconstpointer data)
  {
    auto bytes = static_cast<const std::string *> (data);

    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_binary_borrowed (out, bytes->data (), bytes->size ());
  }

  static gboolean
  read (TpsReader *in, TpsWireType type, gpointer data, GError **)
  {
    TpsBytesView view = tps_reader_binary (in);
    auto *answer = static_cast<Answer *> (data);

    answer->client->on_read ();
    answer->bytes.assign (reinterpret_cast<const char *> (view.data), view.n_bytes);
    return TRUE;
  }

  TpsClient *client_;
};

} // namespace thriftps
