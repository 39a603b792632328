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

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "Transfer.h"

namespace {

using namespace apache::thrift;
using thriftps::peer::Tensor;
using thriftps::peer::TransferClient;
using Clock = std::chrono::steady_clock;

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
    std::printf ("listening on 127.0.0.1:%d\n", socket_->getPort ());
    std::fflush (stdout);
  }

private:
  std::shared_ptr<transport::TServerSocket> socket_;
};

void
EndWithInput ()
{
  std::thread ([] {
    while (std::getchar () != EOF)
      {
      }
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

struct Row
{
  std::string op;
  size_t n_bytes;
  size_t n_connections;
  size_t n_in_flight;
  size_t n_calls;
};

void
Call (TransferClient &client, const Row &row, const Tensor &tensor)
{
  Tensor answer;
  if (row.op == "push")
    client.push (tensor);
  else if (row.op == "pull")
    client.pull (answer, static_cast<int64_t> (row.n_bytes));
  else
    client.echo (answer, tensor);
  if (row.op != "push" && answer.data.size () != row.n_bytes)
    throw std::runtime_error ("a wrong reply");
}

void
RunRow (const Row &row, std::vector<Connection> &connections)
{
  std::vector<std::vector<int64_t>> ns (row.n_connections);
  std::vector<std::string> errors (row.n_connections);
  std::vector<std::thread> threads;
  const Tensor tensor = TensorOf (row.op == "pull" ? 0 : row.n_bytes);
  const auto start = Clock::now ();
  for (size_t i = 0; i < row.n_connections; i++)
    threads.emplace_back ([&, i] {
      const size_t n = row.n_calls / row.n_connections + (i < row.n_calls % row.n_connections);
      try
        {
          for (size_t j = 0; j < n; j++)
            {
              const auto before = Clock::now ();
              Call (*connections[i].client, row, tensor);
              ns[i].push_back (std::chrono::nanoseconds (Clock::now () - before).count ());
            }
        }
      catch (const std::exception &error)
        {
          errors[i] = error.what ();
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  const std::chrono::duration<double> span = Clock::now () - start;
  for (const std::string &error : errors)
    if (!error.empty ())
      throw std::runtime_error (error);
  std::printf ("ok %.9f", span.count ());
  for (const auto &times : ns)
    for (const int64_t time : times)
      std::printf (" %lld", static_cast<long long> (time));
  std::printf ("\n");
}

int
Load (const std::string &address)
{
  std::vector<Connection> connections;
  std::string line;
  while (std::getline (std::cin, line))
    {
      Row row;
      std::istringstream in (line);
      in >> row.op >> row.n_bytes >> row.n_connections >> row.n_in_flight >> row.n_calls;
      try
        {
          connections.clear (); // each row needs new connections, see LargeSockets
          while (connections.size () < row.n_connections)
            connections.emplace_back (address);
          RunRow (row, connections);
        }
      catch (const std::exception &error)
        {
          std::printf ("error %s\n", error.what ());
        }
      std::fflush (stdout);
    }
  return 0;
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
    return Load (Flag (argc, argv, "address"));
  std::fprintf (stderr, "libthrift_transfer: --serve=threaded or --load\n");
  return 2;
}
