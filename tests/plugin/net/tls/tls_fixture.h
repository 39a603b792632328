// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A server with certificates of a test authority, and a client of the library.

#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "plugin/client/client.h"
#include "runtime/base/sync.h"
#include "tests/plugin/client/call_sync.h"
#include "tests/plugin/net/tls/certificates.h"
#include "tests/plugin/net/tls/tls_peer.h"
#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/readings.h"

namespace thriftps_test {

constexpr gint64 kSecond = 1000000000;

struct Call
{
  int code = 0;
  std::string text;
  gint32 number = 0;
  std::string bytes;
};

inline gboolean
ReadResult (TpsReader *result, TpsWireType type, gpointer data, GError **)
{
  auto *call = static_cast<Call *> (data);
  if (type == TPS_WIRE_I32)
    call->number = tps_reader_i32 (result);
  else if (type == TPS_WIRE_BINARY)
    {
      TpsBytesView view = tps_reader_binary (result);
      call->bytes.assign ((const char *) view.data, view.n_bytes);
    }
  return TRUE;
}

inline void
WriteNumber (TpsWriter *out, gconstpointer data)
{
  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, *static_cast<const gint32 *> (data));
}

// A client of the library.
class Client
{
public:
  Client (const std::string &address, TpsTls *tls, const char *peer = nullptr)
  {
    TpsClientOptions options = {};
    options.address = address.c_str ();
    options.tls = tls;
    options.tls_peer = peer;
    client_ = tps_client_new (&options, nullptr);
  }
  ~Client ()
  {
    tps_client_free (client_);
  }
  Call
  Ask (const char *method, gint32 argument)
  {
    Call call;
    g_autoptr (GError) error = nullptr;
    tps_client_call_sync (client_, "Test", method, WriteNumber, &argument,
                          tps_clock_now_ns () + 60 * kSecond, ReadResult, &call, &error);
    call.code = error != nullptr ? error->code : 0;
    call.text = error != nullptr ? error->message : "";
    return call;
  }

private:
  TpsClient *client_;
};

struct FreeTls
{
  void
  operator() (TpsTls *tls) const
  {
    tps_tls_unref (tls);
  }
};
using Tls = std::unique_ptr<TpsTls, FreeTls>;

inline std::string
EchoBytes (gint32 number)
{
  return MessageBytes (Wire (), "Test:echo", number, IntField (number));
}

class TlsTest : public ServerTest
{
protected:
  TlsTest () : authority_ ("authority"), other_ ("other authority")
  {
    g_autofree gchar *folder = g_dir_make_tmp ("tps-tls-XXXXXX", nullptr);
    files_ = folder;
    authority_.Write (File ("ca"));
    authority_.Issue (File ("server"), ServerSubject ());
    authority_.Issue (File ("client"));
    metrics_ = tps_metrics_new (nullptr, nullptr);
    budgets_ = tps_budgets_new (nullptr);
  }
  ~TlsTest () override
  {
    tps_metrics_unref (metrics_);
    tps_budgets_free (budgets_);
    for (const char *name : { "ca", "server", "client", "more" })
      unlink (File (name).c_str ());
    rmdir (files_.c_str ());
  }

  static Subject
  ServerSubject ()
  {
    return { "IP:127.0.0.1,URI:spiffe://test/server" };
  }
  std::string
  File (const std::string &name) const
  {
    return files_ + "/" + name;
  }
  // The arguments are names of files; "" = none.
  Tls
  MakeTls (const std::string &certificate, const std::string &authorities = "ca",
           bool allow_tls_1_2 = false)
  {
    std::string paths[] = { File (certificate), File (authorities) };
    g_autoptr (GError) error = nullptr;
    TpsTlsOptions options = {};
    options.certificate = certificate.empty () ? nullptr : paths[0].c_str ();
    options.authorities = authorities.empty () ? nullptr : paths[1].c_str ();
    options.allow_tls_1_2 = allow_tls_1_2;
    Tls tls (tps_tls_new (&options, &error));
    EXPECT_NE (tls, nullptr) << error->message;
    return tls;
  }
  virtual Tls
  MakeServerTls ()
  {
    return MakeTls ("server", "");
  }
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    server_tls_ = MakeServerTls ();
    options.tls = server_tls_.get ();
    parts_.metrics = metrics_;
    parts_.budgets = budgets_;
    options.n_io_threads = 1;
    Configure (&options);
    return options;
  }
  virtual void
  Configure (TpsServerOptions *)
  {
  }
  guint64
  Count (const char *name, const char *value)
  {
    return static_cast<guint64> (ReadNumber (tps_metrics_get_counters (metrics_), name, value));
  }
  gint64
  Gauge (const char *name)
  {
    return ReadNumber (tps_metrics_get_counters (metrics_), name);
  }
  void
  WaitForFailures (guint64 n)
  {
    while (Count ("tls_handshakes_total", "failed") < n)
      std::this_thread::yield ();
  }
  // Checks that the server still serves a client, and that lost connections have released all
  // memory.
  void
  ExpectServes ()
  {
    {
      Tls tls = MakeTls ("client");
      EXPECT_EQ (Client (tcp_, tls.get ()).Ask ("echo", 77).number, 77);
    }
    while (tps_server_get_n_connections (server_) > 0
           || tps_budget_get_held (budgets_->channels) > 0)
      std::this_thread::yield ();
  }

  Authority authority_;
  Authority other_;
  std::string files_;
  Tls server_tls_;
  TpsMetrics *metrics_;
  TpsBudgets *budgets_;
};

class Required : public TlsTest
{
protected:
  void
  Configure (TpsServerOptions *options) override
  {
    options->tls_required = TRUE;
  }
};

} // namespace thriftps_test
