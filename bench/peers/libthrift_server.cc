// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Thrift's own C++ server as a peer: TThreadedServer, framed transport, binary protocol, service Node without
// multiplexing. Prints "listening on 127.0.0.1:PORT" and serves until it is killed or its standard input ends.

#include <thrift/concurrency/ThreadFactory.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "Node.h"

namespace {

class Handler : public thriftps::NodeIf
{
public:
  void
  describe (thriftps::NodeInfo &) override
  {
  }
  void
  get_metrics (std::vector<thriftps::MetricSummary> &, const bool) override
  {
  }
  void
  clear_metrics () override
  {
  }
};

class Announcer : public apache::thrift::server::TServerEventHandler
{
public:
  explicit Announcer (std::shared_ptr<apache::thrift::transport::TServerSocket> socket)
      : socket_ (socket)
  {
  }
  void
  preServe () override
  {
    std::printf ("listening on 127.0.0.1:%d\n", socket_->getPort ());
    std::fflush (stdout);
  }

private:
  std::shared_ptr<apache::thrift::transport::TServerSocket> socket_;
};

} // namespace

int
main ()
{
  using namespace apache::thrift;
  auto socket = std::make_shared<transport::TServerSocket> ("127.0.0.1", 0);
  server::TThreadedServer server (
      std::make_shared<thriftps::NodeProcessor> (std::make_shared<Handler> ()), socket,
      std::make_shared<transport::TFramedTransportFactory> (),
      std::make_shared<protocol::TBinaryProtocolFactory> ());
  server.setServerEventHandler (std::make_shared<Announcer> (socket));
  std::thread ([] {
    while (std::getchar () != EOF)
      {
      }
    std::_Exit (0);
  }).detach ();
  server.serve ();
}
