/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table whose rows count pushes. It uses SGD with learning rate 1, so each push adds 1 to all
 * columns of its rows. */

#pragma once

#include <gtest/gtest.h>

#include "tests/integration/durable/data_server.h"
#include "tests/runtime/server/tables/tables.h"

namespace thriftps_test {

constexpr int32_t kCountDim = 4;

inline void
create_counts (RawClient &connection, int64_t rows)
{
  embedding_test::Spec spec =
      embedding_test::Spec ("counts", rows, kCountDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);

  EXPECT_EQ (ErrorCode (create_table (connection, spec.value)), 0);
}

/* A push that adds 1 to each of `rows`. */
class Count
{
public:
  Count (const embedding_test::Ids &rows, const std::string &client, int64_t sequence)
      : rows_ (rows), gradient_ (rows.size () * kCountDim, -1.0f), client_ (client)
  {
    query_ = { "counts", rows_, {} };
    for (size_t i = 0; i < rows.size (); i++)
      query_.offsets.push_back (static_cast<int64_t> (i));
    list_ = { query_.get (), embedding_test::view (gradient_, kCountDim) };
    arguments_.n_gradients = 1;
    arguments_.gradients = &list_;
    arguments_.push = { client.empty () ? nullptr : const_cast<gchar *> (client_.c_str ()),
                        sequence };
  }
  Count (const Count &) = delete;
  Count &operator= (const Count &) = delete;

  void
  send (RawClient &connection, int seqid)
  {
    connection.Send ("EmbeddingTable:apply_bag_gradients", seqid,
                     fields_of<tps_apply_bag_gradients_rpc> (&arguments_));
  }

  Message
  call (RawClient &connection)
  {
    return connection.Call ("EmbeddingTable:apply_bag_gradients",
                            fields_of<tps_apply_bag_gradients_rpc> (&arguments_));
  }

private:
  embedding_test::Ids rows_;
  embedding_test::Floats gradient_;
  std::string client_;
  embedding_test::Query query_;
  TpsBagGradient list_ {};
  TpsApplyBagGradientsArguments arguments_ {};
};

/* Sends a push, and returns the code of the reply; -1 = the connection was lost. */
inline int
count (RawClient &connection, const embedding_test::Ids &rows, const std::string &client = "",
       int64_t sequence = 0)
{
  Message reply = Count (rows, client, sequence).call (connection);

  return reply == nullptr ? -1 : ErrorCode (reply);
}

inline std::vector<int>
read_counts (RawClient &connection, int64_t n_rows)
{
  g_auto (TpsTensor) rows = {}, indices = {};
  embedding_test::Ids ids;
  TpsLookupRowsArguments arguments = {};
  std::vector<int> counts;

  for (int64_t row = 0; row < n_rows; row++)
    ids.push_back (row);
  tps_tensor_init_copy (&indices, embedding_test::view (ids));
  arguments.table = const_cast<gchar *> ("counts");
  arguments.indices = indices;
  EXPECT_TRUE (read_result<tps_lookup_rows_rpc> (
      connection.Call ("EmbeddingTable:lookup_rows", fields_of<tps_lookup_rows_rpc> (&arguments)),
      &rows));
  for (int64_t row = 0; row < n_rows && tps_tensor_data (&rows) != nullptr; row++)
    {
      const float *values = static_cast<const float *> (tps_tensor_data (&rows)) + row * kCountDim;

      for (int i = 1; i < kCountDim; i++)
        EXPECT_EQ (values[i], values[0]) << "row " << row << " by half";
      counts.push_back (static_cast<int> (values[0]));
    }
  return counts;
}

} // namespace thriftps_test
