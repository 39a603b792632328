/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/remote_server.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "plugin/wire/wire_embedding_table.h"
#include "runtime/embedding/table_spec.h"
#include "tests/integration/durable/data_server.h"

namespace history {
namespace {

using thriftps_test::ErrorCode;
using thriftps_test::fields_of;
using thriftps_test::Message;
using thriftps_test::RawClient;

/* Each push changes both tables. A read takes even rows from the first table and odd rows from the
 * second one, so a push that a crash keeps in one table only is torn. */
constexpr const char *kTables[] = { "counts", "more_counts" };

TpsTensorView
view_of (TpsDType dtype, const void *data, size_t n, size_t dim)
{
  TpsTensorView view = {};

  view.shape.dtype = dtype;
  view.shape.n_dims = dim > 0 ? 2 : 1;
  view.shape.dims[0] = static_cast<gint64> (n);
  view.shape.dims[1] = static_cast<gint64> (dim);
  view.data = data;
  return view;
}

Reply
reply_of (const Message &message)
{
  if (message == nullptr)
    return Reply::gone;
  return ErrorCode (message) == 0 ? Reply::ok : Reply::refused;
}

Reply
create (RawClient *client, const RemoteTable &table)
{
  Reply reply = Reply::ok;

  for (const char *name : kTables)
    {
      TpsTableSpec spec;

      tps_table_spec_init (&spec, name, table.n_rows, static_cast<gint32> (table.n_columns));
      spec.initializer.kind = TPS_INITIALIZER_ZEROS;
      spec.optimizer.kind = TPS_OPTIMIZER_SGD;
      spec.optimizer.learning_rate = 1;
      if (reply == Reply::ok)
        reply = reply_of (thriftps_test::create_table (*client, spec));
      tps_table_spec_clear (&spec);
    }
  return reply;
}

class RemoteConnection : public Connection
{
public:
  RemoteConnection (const std::string &address, const RemoteTable &table)
      : client_ (address), table_ (table)
  {
  }

  /* Each row is its own bag. */
  Reply
  push (guint column, gint64 sequence, const Rows &rows, unsigned n_copies,
        const std::function<void ()> &acked) override
  {
    std::string name = "client" + std::to_string (column);
    const std::vector<gint64> ids (rows.begin (), rows.end ());
    std::vector<gint64> offsets (rows.size ());
    std::vector<float> values (rows.size () * table_.n_columns);
    TpsBagGradient gradients[2] = {};
    TpsApplyBagGradientsArguments arguments = { 2, gradients, { &name[0], sequence }, nullptr };

    std::iota (offsets.begin (), offsets.end (), 0);
    for (size_t i = 0; i < rows.size (); i++)
      values[i * table_.n_columns + column] = -1;
    for (size_t t = 0; t < 2; t++)
      {
        TpsBagQuery *query = &gradients[t].query;

        query->table = kTables[t];
        query->pooling = TPS_POOLING_SUM;
        query->indices = view_of (TPS_DTYPE_INT64, ids.data (), ids.size (), 0);
        query->offsets = view_of (TPS_DTYPE_INT64, offsets.data (), offsets.size (), 0);
        gradients[t].gradient = view_of (TPS_DTYPE_FLOAT32, values.data (), rows.size (),
                                         table_.n_columns);
      }
    for (unsigned i = 0; i < n_copies; i++)
      client_.Send ("EmbeddingTable:apply_bag_gradients", static_cast<int> (i + 1),
                    fields_of<tps_apply_bag_gradients_rpc> (&arguments));
    return receive (n_copies, acked);
  }

  Reply
  read (const Rows &rows, std::vector<float> *values) override
  {
    std::vector<float> of_table;

    values->resize (rows.size () * table_.n_columns);
    for (size_t t = 0; t < 2; t++)
      {
        Reply reply = read_table (kTables[t], rows, &of_table);

        if (reply != Reply::ok)
          return reply;
        for (size_t i = 0; i < rows.size (); i++)
          if (rows[i] % 2 == t)
            std::copy_n (&of_table[i * table_.n_columns], table_.n_columns,
                         &(*values)[i * table_.n_columns]);
      }
    return Reply::ok;
  }

  Reply
  recreate () override
  {
    for (const char *name : kTables)
      if (Reply reply = reply_of (thriftps_test::drop_table (client_, name)); reply != Reply::ok)
        return reply;
    return create (&client_, table_);
  }

private:
  Reply
  read_table (const char *name, const Rows &rows, std::vector<float> *values)
  {
    std::vector<gint64> ids (rows.begin (), rows.end ());
    TpsLookupRowsArguments arguments = {};
    TpsTensor answer = {};

    arguments.table = const_cast<gchar *> (name);
    tps_tensor_init_copy (&arguments.indices,
                          view_of (TPS_DTYPE_INT64, ids.data (), ids.size (), 0));
    Message message = client_.Call ("EmbeddingTable:lookup_rows",
                                    fields_of<tps_lookup_rows_rpc> (&arguments));
    tps_tensor_clear (&arguments.indices);
    if (message == nullptr)
      return Reply::gone;
    if (!thriftps_test::read_result<tps_lookup_rows_rpc> (message, &answer))
      return Reply::refused;
    auto data = static_cast<const float *> (tps_tensor_data (&answer));
    values->assign (data, data + rows.size () * table_.n_columns);
    tps_tensor_clear (&answer);
    return Reply::ok;
  }

  Reply
  receive (unsigned n_copies, const std::function<void ()> &acked)
  {
    Reply result = Reply::refused;

    for (unsigned i = 0; i < n_copies; i++)
      {
        Reply reply = reply_of (client_.Receive ());

        if (reply == Reply::gone)
          return Reply::gone;
        if (reply != Reply::ok)
          continue;
        acked ();
        result = Reply::ok;
      }
    return result;
  }

  RawClient client_;
  const RemoteTable table_;
};

} // namespace

bool
create_remote_table (const std::string &address, const RemoteTable &table)
{
  RawClient client (address);

  return create (&client, table) == Reply::ok;
}

std::unique_ptr<Connection>
connect_to_server (const std::string &address, const RemoteTable &table)
{
  try
    {
      return std::make_unique<RemoteConnection> (address, table);
    }
  catch (const std::exception &)
    {
      return nullptr;
    }
}

} // namespace history
