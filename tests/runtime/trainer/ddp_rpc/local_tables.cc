/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/ddp_rpc/local_tables.h"

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"
#include "tests/runtime/trainer/ddp_rpc/scatter.h"

const TpsTableClientOps LocalTables::ops = {
  lookup_bags,
  apply_bags,
  cancel,
  free_client,
};

void
LocalTables::add (const std::string &name, gint64 rows, gint64 dim, gint64 scatter_number,
                  double bound)
{
  tables_[name] = { dim, scatter (rows * dim, scatter_number, bound) };
}

TpsTableClient *
LocalTables::open (TpsDevice *device)
{
  Client *client = new Client;

  client->base.ops = &ops;
  client->self = this;
  client->device = device;
  return &client->base;
}

void
LocalTables::wait_for_calls (size_t n)
{
  std::unique_lock<std::mutex> lock (mutex_);

  changed_.wait (lock, [&] { return n_calls_ >= n; });
}

bool
LocalTables::begin (Client *client, const std::function<void ()> &end)
{
  std::unique_lock<std::mutex> lock (mutex_);
  bool is_held = n_calls_++ >= first_held;

  changed_.notify_all ();
  if (client->is_cancelled)
    {
      lock.unlock ();
      end ();
      return false;
    }
  if (is_held)
    client->end_held = end;
  return !is_held;
}

static void
for_each_id (const TpsBagQuery &query, const std::function<void (gint64 bag, gint64 id)> &visit)
{
  const gint64 *ids = static_cast<const gint64 *> (query.indices.data);
  const gint64 *offsets = static_cast<const gint64 *> (query.offsets.data);
  gint64 n_bags = query.offsets.shape.dims[0];

  for (gint64 bag = 0; bag < n_bags; bag++)
    {
      gint64 end = bag + 1 < n_bags ? offsets[bag + 1] : query.indices.shape.dims[0];

      for (gint64 i = offsets[bag]; i < end; i++)
        visit (bag, ids[i]);
    }
}

TpsTensor
LocalTables::look_up (const TpsBagQuery &query)
{
  const Table &table = tables_.at (query.table);
  TpsTensor rows = {};
  TpsShape shape = { TPS_DTYPE_FLOAT32, 2, { query.offsets.shape.dims[0], table.dim } };

  tps_tensor_init_zeroed (&rows, &shape);
  for_each_id (query, [&] (gint64 bag, gint64 id) {
    float *row = static_cast<float *> (tps_tensor_data (&rows)) + bag * table.dim;

    for (gint64 i = 0; i < table.dim; i++)
      row[i] += table.values.at (static_cast<size_t> (id * table.dim + i));
  });
  return rows;
}

TpsTensor
LocalTables::look_up_for (const Client *client, const TpsBagQuery &query)
{
  TpsTensor rows = look_up (query), there = {};
  gsize n_bytes = tps_shape_n_bytes (&rows.shape);
  TpsBuffer *buffer;

  if (client->device == nullptr || on_device.count (query.table) == 0)
    return rows;
  buffer = client->device->ops->alloc (client->device, n_bytes, nullptr);
  g_assert_true (tps_device_memory_copy (client->device, tps_buffer_get_data (buffer),
                                         tps_tensor_data (&rows), n_bytes, nullptr));
  tps_tensor_init_take (&there, &rows.shape, buffer, 0);
  tps_tensor_clear (&rows);
  return there;
}

/* First adds up the gradients of a row's duplicates, as every table does. */
void
LocalTables::apply (const TpsBagGradient &gradient)
{
  Table &table = tables_.at (gradient.query.table);
  std::map<gint64, std::vector<float>> rows;

  for_each_id (gradient.query, [&] (gint64 bag, gint64 id) {
    const float *values = static_cast<const float *> (gradient.gradient.data) + bag * table.dim;
    std::vector<float> &row = rows[id];

    row.resize (static_cast<size_t> (table.dim));
    for (size_t i = 0; i < row.size (); i++)
      row[i] += values[i];
  });
  for (const auto &[id, row] : rows)
    for (size_t i = 0; i < row.size (); i++)
      table.values[static_cast<size_t> (id * table.dim) + i] -= learning_rate_ * row[i];
}

static void
with_error (const std::function<void (const GError *)> &end)
{
  g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED, "cancelled");

  end (error);
}

void
LocalTables::lookup_bags (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
                          gint64, TpsTablesLookedUp done, gpointer user_data)
{
  Client *self = reinterpret_cast<Client *> (client);
  std::vector<TpsTensor> outputs (n_queries);
  auto fail = [=] (const GError *error) { done (user_data, nullptr, error); };

  if (!self->self->begin (self, [=] { with_error (fail); }))
    return;
  {
    std::lock_guard<std::mutex> lock (self->self->mutex_);

    for (guint i = 0; i < n_queries; i++)
      outputs[i] = self->self->look_up_for (self, queries[i]);
  }
  done (user_data, outputs.data (), nullptr);
  for (TpsTensor &output : outputs)
    tps_tensor_clear (&output);
}

void
LocalTables::apply_bags (TpsTableClient *client, const TpsBagGradient *gradients, guint n_gradients,
                         gint64, TpsTablesApplied done, gpointer user_data)
{
  Client *self = reinterpret_cast<Client *> (client);
  auto fail = [=] (const GError *error) { done (user_data, error); };

  if (!self->self->begin (self, [=] { with_error (fail); }))
    return;
  {
    std::lock_guard<std::mutex> lock (self->self->mutex_);

    for (guint i = 0; i < n_gradients; i++)
      self->self->apply (gradients[i]);
  }
  done (user_data, nullptr);
}

void
LocalTables::cancel (TpsTableClient *client)
{
  Client *self = reinterpret_cast<Client *> (client);
  std::function<void ()> end;

  {
    std::lock_guard<std::mutex> lock (self->self->mutex_);

    self->is_cancelled = true;
    end.swap (self->end_held);
  }
  if (end)
    end ();
}

void
LocalTables::free_client (TpsTableClient *client)
{
  cancel (client);
  delete reinterpret_cast<Client *> (client);
}
