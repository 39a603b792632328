/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Shared parts of the client tests: the outcome of a call, and deadlines. */

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "plugin/client/client.h"
#include "runtime/base/error.h"
#include "tests/plugin/client/scripted_peer.h"

namespace tps_test {

inline gint64
now_ns ()
{
  return std::chrono::duration_cast<std::chrono::nanoseconds> (
             std::chrono::steady_clock::now ().time_since_epoch ())
      .count ();
}

inline gint64
in_ms (gint64 ms)
{
  return now_ns () + ms * 1000000;
}

/* A deadline that no successful call reaches. */
inline gint64
later ()
{
  return in_ms (60000);
}

/* The end of one call. */
class Ending
{
public:
  ~Ending ()
  {
    g_clear_error (&error_);
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> lock (mutex_);

    if (!condition_.wait_for (lock, std::chrono::seconds (90), [this] { return n_done_ > 0; }))
      ADD_FAILURE () << "the call never ended";
    EXPECT_LE (n_done_, 1);
  }

  bool
  is_done ()
  {
    return n_done () > 0;
  }

  int
  n_done ()
  {
    std::lock_guard<std::mutex> lock (mutex_);
    return n_done_;
  }

  /* The following values are valid after wait(). */
  const GError *
  error () const
  {
    return error_;
  }
  int
  code () const
  {
    return error_ != nullptr ? error_->code : 0;
  }
  std::string
  text () const
  {
    return error_ != nullptr ? error_->message : "";
  }
  gint64
  done_ns () const
  {
    return done_ns_;
  }

protected:
  /* Stores the result with `store`. */
  template <typename Store>
  void
  end (const GError *error, Store store)
  {
    std::lock_guard<std::mutex> lock (mutex_);

    done_ns_ = now_ns ();
    if (error != nullptr && error_ == nullptr)
      error_ = g_error_copy (error);
    store ();
    n_done_++;
    condition_.notify_all ();
  }

private:
  std::mutex mutex_;
  std::condition_variable condition_;
  int n_done_ = 0;
  gint64 done_ns_ = 0;
  GError *error_ = nullptr;
};

/* The outcome of one call. Pass done() as TpsClientDone and the object as user data. */
class Outcome : public Ending
{
public:
  static void
  done (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
  {
    Outcome *self = static_cast<Outcome *> (user_data);

    self->end (error, [=] {
      EXPECT_TRUE (error == nullptr || result == nullptr);
      if (error == nullptr && type == TPS_WIRE_I64)
        self->value_ = tps_reader_i64 (result);
    });
  }

  gint64
  value () const
  {
    return value_;
  }

private:
  gint64 value_ = 0;
};

class ClientTest : public testing::Test
{
protected:
  ~ClientTest () override
  {
    g_clear_pointer (&client_, tps_client_free);
  }

  void
  connect_to (const std::string &address)
  {
    options_.address = address.c_str ();
    client_ = tps_client_new (&options_, nullptr);
    ASSERT_NE (client_, nullptr);
    options_.address = nullptr;
  }

  /* Writes field 1, an i64. */
  static void
  write_i64 (TpsWriter *out, gconstpointer value)
  {
    tps_writer_field (out, 1, TPS_WIRE_I64);
    tps_writer_i64 (out, *static_cast<const gint64 *> (value));
  }

  static void
  write_borrowed (TpsWriter *out, gconstpointer data)
  {
    const std::string *bytes = static_cast<const std::string *> (data);

    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_binary_borrowed (out, bytes->data (), bytes->size ());
  }

  void
  call (Outcome *outcome, gint64 argument, gint64 deadline_ns)
  {
    tps_client_call (client_, "Calculator", "square", write_i64, &argument, deadline_ns,
                     Outcome::done, outcome);
  }

  /* Returns the client's connection after a first call, which has sequence id 1. */
  Connection
  accept_after_a_call (Listener &listener)
  {
    Outcome first;

    call (&first, 1, later ());
    Connection connection = listener.accept ();
    connection.send (reply_i64 ("square", connection.read_call ().seqid, 1));
    first.wait ();
    return connection;
  }

  void
  push (Outcome *outcome, const std::string *bytes, gint64 deadline_ns)
  {
    tps_client_call (client_, "Calculator", "push", write_borrowed, bytes, deadline_ns,
                     Outcome::done, outcome);
  }

  TpsClientOptions options_ = {};
  TpsClient *client_ = nullptr;
};

}
