/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The conformance client in C++. README.md lists the checks.
 *
 *   conformance HOST PORT TABLE */

#include <thrift/TConfiguration.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TMultiplexedProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "EmbeddingTable.h"
#include "ParameterServer.h"

using apache::thrift::TConfiguration;
using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::protocol::TMultiplexedProtocol;
using apache::thrift::transport::TFramedTransport;
using apache::thrift::transport::TSocket;

namespace {

constexpr int64_t BATCH = (INT64_C (1) << 53) + 1;
constexpr int64_t LARGE = 5000000;

template <typename T>
thriftps::Tensor
tensor_of (thriftps::DType::type dtype, const std::vector<int64_t> &shape,
           const std::vector<T> &values)
{
  thriftps::Tensor tensor;

  tensor.__set_dtype (dtype);
  tensor.__set_shape (shape);
  tensor.__set_data (
      std::string (reinterpret_cast<const char *> (values.data ()), values.size () * sizeof (T)));
  return tensor;
}

thriftps::Tensor
floats (const std::vector<int64_t> &shape, const std::vector<float> &values)
{
  return tensor_of (thriftps::DType::FLOAT32, shape, values);
}

thriftps::Tensor
int64s (const std::vector<int64_t> &values)
{
  return tensor_of (thriftps::DType::INT64, { static_cast<int64_t> (values.size ()) }, values);
}

void
expect (const char *what, const thriftps::Tensor &tensor, const thriftps::Tensor &expected)
{
  if (!(tensor == expected))
    throw std::runtime_error (std::string (what) + ": wrong values");
}

void
check_table (thriftps::EmbeddingTableClient &tables, const std::string &name)
{
  thriftps::TableSpec spec;
  thriftps::SparseTensor gradient;
  thriftps::PushId push;
  thriftps::BagQuery query;
  thriftps::Tensor rows;
  std::vector<thriftps::Tensor> pooled;

  spec.name = name;
  spec.rows = 10;
  spec.dim = 2;
  spec.__set_dtype (thriftps::DType::FLOAT32);
  spec.initializer.__set_kind (thriftps::InitializerKind::ZEROS);
  spec.__isset.initializer = true;
  spec.optimizer.__set_kind (thriftps::OptimizerKind::SGD);
  spec.optimizer.learning_rate = 1;
  spec.__isset.optimizer = true;
  tables.create_table (spec);

  gradient.indices = int64s ({ 3, 7 });
  gradient.values = floats ({ 2, 2 }, { 1, 2, 3, 4 });
  gradient.shape = { 10, 2 };
  push.client = name;
  push.sequence = BATCH;
  for (int i = 0; i < 2; i++)
    tables.apply_row_gradients (name, gradient, push);

  tables.lookup_rows (rows, name, int64s ({ 3, 7, 0 }));
  expect ("rows", rows, floats ({ 3, 2 }, { -1, -2, -3, -4, 0, 0 }));
  query.table = name;
  query.indices = int64s ({ 3, 7, 7 });
  query.offsets = int64s ({ 0, 1 });
  query.__set_pooling (thriftps::Pooling::SUM);
  tables.lookup_bags (pooled, { query });
  expect ("bags", pooled.at (0), floats ({ 2, 2 }, { -1, -2, -6, -8 }));
}

void
check_error (thriftps::EmbeddingTableClient &tables)
{
  thriftps::Tensor rows;

  try
    {
      tables.lookup_rows (rows, "missing", int64s ({ 0 }));
    }
  catch (const thriftps::ServiceError &failure)
    {
      if (failure.code == thriftps::ErrorCode::NOT_FOUND
          && failure.message.find ("missing") != std::string::npos)
        return;
      throw;
    }
  throw std::runtime_error ("a lookup in a missing table succeeded");
}

void
check_average (thriftps::ParameterServerClient &server, int param_loc,
               const thriftps::Tensor &values, const thriftps::Tensor &expected)
{
  thriftps::Gradient gradient;
  thriftps::Gradient average;

  gradient.__set_dense (values);
  server.average_gradient (average, 1, BATCH, param_loc, gradient);
  expect ("average", average.dense, expected);
}

void
run (const std::string &host, int port, const std::string &table)
{
  /* The library's default limits are below 20 MB (OPERATING.md, languages). */
  auto limits = std::make_shared<TConfiguration> ();
  limits->setMaxFrameSize (256 << 20);
  limits->setMaxMessageSize (256 << 20);
  auto transport = std::make_shared<TFramedTransport> (
      std::make_shared<TSocket> (host, port, limits), limits);
  auto protocol = std::make_shared<TBinaryProtocol> (transport);
  thriftps::EmbeddingTableClient tables (
      std::make_shared<TMultiplexedProtocol> (protocol, "EmbeddingTable"));
  thriftps::ParameterServerClient server (
      std::make_shared<TMultiplexedProtocol> (protocol, "ParameterServer"));

  transport->open ();
  check_table (tables, table);
  check_error (tables);
  check_average (server, 0, floats ({ 3 }, { 1, 2, 3 }), floats ({ 3 }, { 2, 3, 4 }));
  check_average (server, 1, floats ({ LARGE }, std::vector<float> (LARGE, 1)),
                 floats ({ LARGE }, std::vector<float> (LARGE, 2)));
  transport->close ();
}

}

int
main (int argc, char **argv)
{
  if (argc != 4)
    return 2;
  try
    {
      run (argv[1], atoi (argv[2]), argv[3]);
    }
  catch (const std::exception &error)
    {
      fprintf (stderr, "%s\n", error.what ());
      return 1;
    }
  puts ("ok");
  return 0;
}
