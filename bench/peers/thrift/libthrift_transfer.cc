// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Thrift's own C++ library as a peer of //bench:transfer: framed transport, binary protocol.
//
//   libthrift_transfer --serve=threaded --address=127.0.0.1:0
//   libthrift_transfer --load=... --address=127.0.0.1:PORT
//
// The server prints "listening on ADDRESS" and ends at the end of its standard input. The load
// generator reads rows and prints times (bench/transfer/system/row.h), with a thread and a
// connection for each connection of a row.

#include <thrift/TConfiguration.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "Transfer.h"
#include "bench/transfer/system/row.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

namespace {

using namespace apache::thrift;
using thriftps::peer::Tensor;
using thriftps::peer::TransferClient;

constexpr int kLimit = std::numeric_limits<int>::max ();

std::shared_ptr<TConfiguration>
Limits ()
{
  auto limits = std::make_shared<TConfiguration> ();
  limits->setMaxFrameSize (kLimit);
  limits->setMaxMessageSize (kLimit);
  return limits;
}

Tensor
TensorOf (size_t n_bytes)
{
  Tensor tensor;
  tensor.dtype = 1;
  tensor.shape = { static_cast<int64_t> (n_bytes / 4) };
  tensor.__set_data (std::string (n_bytes, '\0'));
  return tensor;
}

class Handler : public thriftps::peer::TransferIf
{
public:
  void
  push (const Tensor &) override
  {
  }
  // Returns the same tensor for every pull, as with a table or a model.
  void
  pull (Tensor &result, const int64_t n_bytes) override
  {
    std::lock_guard<std::mutex> lock (mutex_);
    if (pulled_.data.size () != static_cast<size_t> (n_bytes))
      pulled_ = TensorOf (static_cast<size_t> (n_bytes));
    result = pulled_;
  }
  void
  echo (Tensor &result, const Tensor &tensor) override
  {
    result = tensor;
  }
  void
  clear_metrics () override
  {
  }

private:
  std::mutex mutex_;
  Tensor pulled_;
};

// Sets our limits on accepted connections, which otherwise have the limits of the library.
class LargeFrames : public transport::TTransportFactory
{
public:
  std::shared_ptr<transport::TTransport>
  getTransport (std::shared_ptr<transport::TTransport> inner) override
  {
    return std::make_shared<transport::TFramedTransport> (inner, Limits ());
  }
};

// Sets our limits on sockets: the library compares the total bytes of a connection with the limit
// of a single message.
class LargeSockets : public transport::TServerSocket
{
public:
  using TServerSocket::TServerSocket;

protected:
  std::shared_ptr<transport::TSocket>
  createSocket (THRIFT_SOCKET client) override
  {
    return std::make_shared<transport::TSocket> (client, Limits ());
  }
};

class Announcer : public server::TServerEventHandler
{
public:
  explicit Announcer (std::shared_ptr<transport::TServerSocket> socket) : socket_ (socket)
  {
  }
  void
  preServe () override
  {
    tps_transfer_announce (("127.0.0.1:" + std::to_string (socket_->getPort ())).c_str ());
  }

private:
  std::shared_ptr<transport::TServerSocket> socket_;
};

void
EndWithInput ()
{
  std::thread ([] {
    tps_transfer_wait_for_end ();
    std::_Exit (0);
  }).detach ();
}

int
ServeThreaded ()
{
  auto socket = std::make_shared<LargeSockets> ("127.0.0.1", 0);
  server::TThreadedServer server (
      std::make_shared<thriftps::peer::TransferProcessor> (std::make_shared<Handler> ()), socket,
      std::make_shared<LargeFrames> (), std::make_shared<protocol::TBinaryProtocolFactory> ());
  server.setServerEventHandler (std::make_shared<Announcer> (socket));
  EndWithInput ();
  server.serve ();
  return 0;
}

struct Connection
{
  explicit Connection (const std::string &address)
  {
    auto limits = Limits ();
    auto socket = std::make_shared<transport::TSocket> (
        "127.0.0.1", std::atoi (address.substr (address.rfind (':') + 1).c_str ()), limits);
    socket->setNoDelay (true);
    auto framed = std::make_shared<transport::TFramedTransport> (socket, limits);
    client = std::make_unique<TransferClient> (
        std::make_shared<protocol::TBinaryProtocol> (framed));
    framed->open ();
  }
  std::unique_ptr<TransferClient> client;
};

void
Call (TransferClient &client, const TpsTransferRow *row, const Tensor &tensor)
{
  Tensor answer;
  if (row->op == TPS_TRANSFER_PUSH)
    client.push (tensor);
  else if (row->op == TPS_TRANSFER_PULL)
    client.pull (answer, static_cast<int64_t> (row->n_bytes));
  else
    client.echo (answer, tensor);
  if (row->op != TPS_TRANSFER_PUSH && answer.data.size () != row->n_bytes)
    throw std::runtime_error ("a wrong reply");
}

// Each row needs new connections, see LargeSockets. `user_data` is the address.
gint64
RunRow (gpointer user_data, const TpsTransferRow *row, gint64 *ns, GError **error)
try
  {
    std::vector<Connection> connections;
    std::vector<std::string> errors (row->n_connections);
    std::vector<std::thread> threads;
    const Tensor tensor = TensorOf (row->op == TPS_TRANSFER_PULL ? 0 : row->n_bytes);
    while (connections.size () < row->n_connections)
      connections.emplace_back (*static_cast<std::string *> (user_data));
    const gint64 start_ns = tps_clock_now_ns ();
    for (guint i = 0; i < row->n_connections; i++)
      {
        const guint n = row->n_calls / row->n_connections + (i < row->n_calls % row->n_connections);
        threads.emplace_back ([&, i, n, ns] {
          try
            {
              for (guint j = 0; j < n; j++)
                {
                  const gint64 before_ns = tps_clock_now_ns ();
                  Call (*connections[i].client, row, tensor);
                  ns[j] = tps_clock_now_ns () - before_ns;
                }
            }
          catch (const std::exception &failure)
            {
              errors[i] = failure.what ();
            }
        });
        ns += n;
      }
    for (std::thread &thread : threads)
      thread.join ();
    const gint64 span_ns = tps_clock_now_ns () - start_ns;
    for (const std::string &failure : errors)
      if (!failure.empty ())
        throw std::runtime_error (failure);
    return span_ns;
  }
catch (const std::exception &failure)
  {
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s", failure.what ());
    return -1;
  }

std::string
Flag (int argc, char **argv, const std::string &name)
{
  const std::string start = "--" + name + "=";
  for (int i = 1; i < argc; i++)
    if (std::string (argv[i]).compare (0, start.size (), start) == 0)
      return argv[i] + start.size ();
  return "";
}

} // namespace

int
main (int argc, char **argv)
{
  const std::string serve = Flag (argc, argv, "serve");
  // The library logs every connection that ends.
  GlobalOutput.setOutputFunction ([] (const char *) {});
  if (serve == "threaded")
    return ServeThreaded ();
  if (!Flag (argc, argv, "load").empty ())
    {
      std::string address = Flag (argc, argv, "address");
      return tps_transfer_serve_rows (RunRow, &address);
    }
  std::fprintf (stderr, "libthrift_transfer: --serve=threaded or --load\n");
  return 2;
}
