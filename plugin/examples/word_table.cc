/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An embedding table in C++: pushes the gradient of a bag of words and looks the bag up.
 *
 *   word_table HOST PORT */

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TMultiplexedProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <EmbeddingTable.h>

using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::protocol::TMultiplexedProtocol;
using apache::thrift::transport::TFramedTransport;
using apache::thrift::transport::TSocket;

namespace {

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

/* Creates the table. Also succeeds if it exists with the same specification. */
void
create_table (thriftps::EmbeddingTableClient &tables)
{
  thriftps::TableSpec spec;
  thriftps::Initializer zeros;
  thriftps::Optimizer sgd;

  zeros.__set_kind (thriftps::InitializerKind::ZEROS);
  sgd.__set_kind (thriftps::OptimizerKind::SGD);
  sgd.__set_learning_rate (0.1);
  spec.__set_name ("words");
  spec.__set_rows (10000);
  spec.__set_dim (4);
  spec.__set_dtype (thriftps::DType::FLOAT32);
  spec.__set_initializer (zeros);
  spec.__set_optimizer (sgd);
  tables.create_table (spec);
}

/* Returns one bag of three words. */
thriftps::BagQuery
bag_of_words ()
{
  thriftps::BagQuery bag;

  bag.__set_table ("words");
  bag.__set_indices (tensor_of<int64_t> (thriftps::DType::INT64, { 3 }, { 3, 141, 59 }));
  bag.__set_offsets (tensor_of<int64_t> (thriftps::DType::INT64, { 1 }, { 0 }));
  bag.__set_pooling (thriftps::Pooling::SUM);
  return bag;
}

/* The gradient of the bag is 1 in every column. A push id consists of a client name, which no other
 * process may ever use, and a sequence number, which must grow with every push. */
void
push (thriftps::EmbeddingTableClient &tables)
{
  std::random_device random;
  thriftps::BagGradient gradient;
  thriftps::PushId id;

  gradient.__set_query (bag_of_words ());
  gradient.__set_gradient (tensor_of<float> (thriftps::DType::FLOAT32, { 1, 4 }, { 1, 1, 1, 1 }));
  id.__set_client ("words-" + std::to_string (random ()) + "-" + std::to_string (random ()));
  id.__set_sequence (1);
  tables.apply_bag_gradients ({ gradient }, id);
}

void
look_up (thriftps::EmbeddingTableClient &tables)
{
  std::vector<thriftps::Tensor> pooled;
  float values[4];

  tables.lookup_bags (pooled, { bag_of_words () });
  memcpy (values, pooled.at (0).data.data (), sizeof values);
  printf ("%.1f %.1f %.1f %.1f\n", values[0], values[1], values[2], values[3]);
}

}

int
main (int argc, char **argv)
{
  if (argc != 3)
    {
      fprintf (stderr, "usage: word_table HOST PORT\n");
      return 2;
    }
  try
    {
      auto socket = std::make_shared<TSocket> (argv[1], atoi (argv[2]));
      auto transport = std::make_shared<TFramedTransport> (socket);
      auto protocol = std::make_shared<TBinaryProtocol> (transport);
      thriftps::EmbeddingTableClient tables (
          std::make_shared<TMultiplexedProtocol> (protocol, "EmbeddingTable"));

      transport->open ();
      create_table (tables);
      push (tables);
      look_up (tables);
      transport->close ();
    }
  catch (const std::exception &error)
    {
      fprintf (stderr, "%s\n", error.what ());
      return 1;
    }
  return 0;
}
