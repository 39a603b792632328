// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A service whose replies the test controls, and a server with it.
//
//   echo (1: i32)     replies at once with the argument
//   hold (1: i32)     replies when the test releases it
//   work (1: i32)     runs on a worker until the test releases it, then replies with the argument
//   compute (1: i32)  does the same on the I/O thread, and then occupies the thread for 200 us
//   make (1: i32)     replies at once with that number of bytes
//   take (1: binary)  keeps the call and its body until the test releases them

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/server/server.h"
#include "runtime/base/error.h"
#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {

inline WriteFields
IntField (gint32 value)
{
  return [value] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_I32);
    tps_writer_i32 (out, value);
  };
}

inline WriteFields
BinaryField (size_t n_bytes)
{
  return [n_bytes] (TpsWriter *out) {
    std::string bytes (n_bytes, 'x');
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_binary (out, bytes.data (), bytes.size ());
  };
}

class TestService
{
public:
  ~TestService ()
  {
    LetGo ();
  }

  TpsService
  Get (const char *name = "Test")
  {
    static const TpsRpc rpcs[] = {
      { "Test", "echo", nullptr, nullptr }, { "Test", "hold", nullptr, nullptr },
      { "Test", "work", nullptr, nullptr }, { "Test", "make", nullptr, nullptr },
      { "Test", "take", nullptr, nullptr }, { "Test", "compute", nullptr, nullptr },
    };
    static const TpsMethod methods[] = {
      { TPS_RIGHT_PUSH, &rpcs[0], HandleEcho, TPS_METHOD_INLINE },
      { TPS_RIGHT_PUSH, &rpcs[1], HandleHold, TPS_METHOD_INLINE },
      { TPS_RIGHT_PUSH, &rpcs[2], HandleWork, TPS_METHOD_ON_WORKER },
      { TPS_RIGHT_PUSH, &rpcs[3], HandleMake, TPS_METHOD_INLINE },
      { TPS_RIGHT_PUSH, &rpcs[4], HandleHold, TPS_METHOD_INLINE },
      { TPS_RIGHT_PUSH, &rpcs[5], HandleCompute, TPS_METHOD_INLINE },
      {},
    };
    TpsService service = {};
    service.name = name;
    service.methods = methods;
    service.object = this;
    service.shut_down = ShutDown;
    return service;
  }

  // Waits until the call of hold with this argument has arrived, and replies to it.
  void
  Release (gint32 argument)
  {
    TpsCall *call = nullptr;
    {
      std::unique_lock<std::mutex> guard (lock_);
      changed_.wait (guard, [&] { return held_.count (argument) > 0; });
      call = held_.find (argument)->second;
      held_.erase (held_.find (argument));
    }
    tps_call_reply (call, WriteInt, &argument);
  }

  void
  WaitForHeld (size_t n)
  {
    std::unique_lock<std::mutex> guard (lock_);
    changed_.wait (guard, [&] { return held_.size () >= n; });
  }
  size_t
  NHeld ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    return held_.size ();
  }
  void
  WaitForWorking (int n)
  {
    std::unique_lock<std::mutex> guard (lock_);
    changed_.wait (guard, [&] { return n_working_ >= n; });
  }
  // Returns the arguments of the started calls of work and compute, in the order of their start.
  std::vector<gint32>
  Begun ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    return begun_;
  }
  // Ends the running calls and all later ones.
  void
  LetGo ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    let_go_ = true;
    changed_.notify_all ();
  }

private:
  static gint32
  ReadArgument (TpsCall *call)
  {
    TpsReader in;
    TpsWireType type;
    gint16 id;
    gint32 value = 0;
    tps_reader_init (&in, call->message);
    tps_reader_struct_begin (&in);
    while (tps_reader_field (&in, &id, &type))
      if (type == TPS_WIRE_I32)
        value = tps_reader_i32 (&in);
      else
        tps_reader_skip (&in, type);
    return value;
  }
  static void
  WriteInt (TpsWriter *out, gconstpointer value)
  {
    tps_writer_field (out, 0, TPS_WIRE_I32);
    tps_writer_i32 (out, *static_cast<const gint32 *> (value));
  }
  static void
  WriteBytes (TpsWriter *out, gconstpointer value)
  {
    std::string bytes ((size_t) * static_cast<const gint32 *> (value), 'm');
    tps_writer_field (out, 0, TPS_WIRE_BINARY);
    tps_writer_binary (out, bytes.data (), bytes.size ());
  }
  static void
  HandleEcho (TpsCall *call, gpointer)
  {
    gint32 value = ReadArgument (call);
    tps_call_reply (call, WriteInt, &value);
  }
  static void
  HandleMake (TpsCall *call, gpointer)
  {
    gint32 n_bytes = ReadArgument (call);
    tps_call_reply (call, WriteBytes, &n_bytes);
  }
  static void
  HandleHold (TpsCall *call, gpointer object)
  {
    auto *service = static_cast<TestService *> (object);
    gint32 argument = ReadArgument (call);
    std::unique_lock<std::mutex> guard (service->lock_);
    if (service->down_)
      {
        guard.unlock ();
        RefuseUnavailable (call);
        return;
      }
    service->held_.emplace (argument, call);
    service->changed_.notify_all ();
  }
  static void
  HandleWork (TpsCall *call, gpointer object)
  {
    auto *service = static_cast<TestService *> (object);
    gint32 value = ReadArgument (call);
    {
      std::unique_lock<std::mutex> guard (service->lock_);
      service->n_working_++;
      service->begun_.push_back (value);
      service->changed_.notify_all ();
      service->changed_.wait (guard, [&] { return service->let_go_; });
    }
    tps_call_reply (call, WriteInt, &value);
  }
  static void
  HandleCompute (TpsCall *call, gpointer object)
  {
    HandleWork (call, object);
    for (gint64 begin_us = g_get_monotonic_time (); g_get_monotonic_time () - begin_us < 200;)
      ;
  }
  static void
  RefuseUnavailable (TpsCall *call)
  {
    g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE, "ends");
    tps_call_reply_error (call, error);
  }
  static void
  ShutDown (gpointer object)
  {
    auto *service = static_cast<TestService *> (object);
    std::multimap<gint32, TpsCall *> held;
    {
      std::lock_guard<std::mutex> guard (service->lock_);
      service->down_ = true;
      held.swap (service->held_);
    }
    for (auto &entry : held)
      RefuseUnavailable (entry.second);
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::multimap<gint32, TpsCall *> held_;
  int n_working_ = 0;
  std::vector<gint32> begun_;
  bool let_go_ = false;
  bool down_ = false;
};

// A server with the test service on one loopback address and one Unix socket.
class ServerTest : public testing::Test
{
protected:
  virtual TpsServerOptions
  Options ()
  {
    return {};
  }

  TpsServerParts parts_ = {}; // which Options() may fill in

  // Adds services in addition to the test service.
  virtual void
  AddServices ()
  {
  }

  void
  SetUp () override
  {
    TpsServerOptions options = Options ();
    options.parts = &parts_;
    TpsService service = service_.Get ();
    GError *error = nullptr;
    folder_ = g_dir_make_tmp ("tps-server-XXXXXX", nullptr);
    path_ = std::string (folder_) + "/socket";
    server_ = tps_server_new (&options);
    tps_server_add_service (server_, &service);
    AddServices ();
    ASSERT_TRUE (tps_server_listen (server_, "127.0.0.1:0", &error)) << error->message;
    ASSERT_TRUE (tps_server_listen (server_, ("unix:" + path_).c_str (), &error)) << error->message;
    ASSERT_TRUE (tps_server_start (server_, &error)) << error->message;
    tcp_ = tps_server_get_addresses (server_)[0];
    unix_ = tps_server_get_addresses (server_)[1];
  }
  void
  TearDown () override
  {
    service_.LetGo ();
    g_clear_object (&server_);
    rmdir (folder_);
    g_free (folder_);
  }

  TestService service_;
  TpsServer *server_ = nullptr;
  gchar *folder_ = nullptr;
  std::string path_;
  std::string tcp_;
  std::string unix_;
};

} // namespace thriftps_test
