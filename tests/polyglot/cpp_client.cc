/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One trainer in C++ that uses generated code and libthrift, whose limits are raised as
 * OPERATING.md says.
 *
 *   cpp_client HOST PORT TRAINER N_ELEMS N_BATCHES EXPECTED \
 *     [small-limits | tls=FOLDER | header=PROTOCOL]
 *
 * It pushes N_ELEMS floats of the value TRAINER in every batch, and expects averages of the value
 * EXPECTED. With `small-limits` it keeps the library's own limits. With `tls` the connection is
 * encrypted with ca.pem, client.pem and client.key of the folder, and with the library's own
 * limits, because its factory does not accept others. With `header` calls use THeader frames,
 * binary or compact. It prints "ok" or the error. */

#include <thrift/TConfiguration.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/THeaderProtocol.h>
#include <thrift/protocol/TMultiplexedProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSSLSocket.h>
#include <thrift/transport/TSocket.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "thrift/ParameterServer.h"

using apache::thrift::TConfiguration;
using apache::thrift::protocol::T_BINARY_PROTOCOL;
using apache::thrift::protocol::T_COMPACT_PROTOCOL;
using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::protocol::THeaderProtocol;
using apache::thrift::protocol::TMultiplexedProtocol;
using apache::thrift::protocol::TProtocol;
using apache::thrift::transport::TFramedTransport;
using apache::thrift::transport::TSocket;
using apache::thrift::transport::TSSLSocketFactory;

namespace {

struct Task
{
  std::string host;
  int port = 0;
  int trainer = 0;
  size_t n_elems = 0;
  int n_batches = 0;
  float expected = 0;
  bool small_limits = false;
  std::string tls;    /* "" = not encrypted */
  std::string header; /* "" = usual frames */
};

thriftps::Gradient
gradient_of (const Task &task)
{
  std::vector<float> values (task.n_elems, static_cast<float> (task.trainer));
  thriftps::Gradient gradient;
  thriftps::Tensor tensor;

  tensor.__set_dtype (thriftps::DType::FLOAT32);
  tensor.__set_shape ({ static_cast<int64_t> (task.n_elems) });
  tensor.__set_data (std::string (reinterpret_cast<const char *> (values.data ()),
                                  values.size () * sizeof (float)));
  gradient.__set_dense (tensor);
  return gradient;
}

bool
is_expected (const Task &task, const thriftps::Gradient &average)
{
  const std::string &data = average.dense.data;

  if (data.size () != task.n_elems * sizeof (float))
    return false;
  for (size_t i = 0; i < task.n_elems; i++)
    if (memcmp (&data[i * sizeof (float)], &task.expected, sizeof (float)) != 0)
      return false;
  return true;
}

std::shared_ptr<TSocket>
connect_encrypted (const Task &task, TSSLSocketFactory *factory)
{
  factory->loadTrustedCertificates ((task.tls + "/ca.pem").c_str ());
  factory->loadCertificate ((task.tls + "/client.pem").c_str ());
  factory->loadPrivateKey ((task.tls + "/client.key").c_str ());
  factory->authenticate (true);
  return factory->createSocket (task.host, task.port);
}

std::shared_ptr<TProtocol>
make_protocol (const Task &task, const std::shared_ptr<TSocket> &socket,
               const std::shared_ptr<TConfiguration> &limits)
{
  if (task.header.empty ())
    return std::make_shared<TBinaryProtocol> (std::make_shared<TFramedTransport> (socket, limits));
  auto protocol = std::make_shared<THeaderProtocol> (
      socket, task.header == "compact" ? T_COMPACT_PROTOCOL : T_BINARY_PROTOCOL);
  protocol->setHeader ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  return protocol;
}

void
run (const Task &task)
{
  auto limits = std::make_shared<TConfiguration> ();

  if (!task.small_limits)
    {
      limits->setMaxFrameSize (256 << 20);
      limits->setMaxMessageSize (256 << 20);
    }
  TSSLSocketFactory factory;
  auto socket = task.tls.empty () ? std::make_shared<TSocket> (task.host, task.port, limits)
                                  : connect_encrypted (task, &factory);
  thriftps::ParameterServerClient client (std::make_shared<TMultiplexedProtocol> (
      make_protocol (task, socket, limits), "ParameterServer"));
  thriftps::Gradient gradient = gradient_of (task);

  socket->setNoDelay (true);
  socket->open ();
  for (int batch = 0; batch < task.n_batches; batch++)
    {
      thriftps::Gradient average;

      client.average_gradient (average, task.trainer, batch, 0, gradient);
      if (!is_expected (task, average))
        throw std::runtime_error ("batch " + std::to_string (batch) + " has a wrong average");
    }
  socket->close ();
}

}

int
main (int argc, char **argv)
{
  Task task;

  if (argc < 7)
    {
      fprintf (stderr, "usage: cpp_client HOST PORT TRAINER N_ELEMS N_BATCHES EXPECTED "
                       "[small-limits | tls=FOLDER | header=PROTOCOL]\n");
      return 2;
    }
  task.host = argv[1];
  task.port = atoi (argv[2]);
  task.trainer = atoi (argv[3]);
  task.n_elems = strtoul (argv[4], nullptr, 10);
  task.n_batches = atoi (argv[5]);
  task.expected = strtof (argv[6], nullptr);
  if (argc > 7 && strncmp (argv[7], "tls=", 4) == 0)
    task.tls = argv[7] + 4;
  else if (argc > 7 && strncmp (argv[7], "header=", 7) == 0)
    task.header = argv[7] + 7;
  else
    task.small_limits = argc > 7;
  try
    {
      run (task);
    }
  catch (const std::exception &error)
    {
      printf ("%s\n", error.what ());
      return 1;
    }
  puts ("ok");
  return 0;
}
