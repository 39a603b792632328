/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The EmbeddingTable service behind a dispatcher, without a socket. A carrier runs jobs on a pool
 * of workers and stores the replies. */

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/service/dispatch.h"
#include "plugin/service/embedding_table_service.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/error.h"
#include "tests/plugin/frame/wire_bytes.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps {

/* The reply to one call. It may still be pending. */
class Answer
{
public:
  /* Waits for the reply. Returns the code of its ServiceError; 0 = none. */
  int
  code ()
  {
    wait ();
    read_error ();
    return error_code;
  }

  std::string
  text ()
  {
    wait ();
    read_error ();
    return error_text;
  }

  bool
  has_come ()
  {
    std::lock_guard<std::mutex> guard (lock);
    return come;
  }

  /* Reads the success value. */
  template <typename Decode, typename Target>
  bool
  read (Decode decode, Target *target)
  {
    TpsReader in;
    TpsWireType type;
    gint16 id;

    wait ();
    tps_reader_init (&in, scan.messages.at (0));
    if (!tps_reader_field (&in, &id, &type) || id != 0)
      return false;
    return decode (&in, type, target, nullptr);
  }

  bool may_wait = true;
  class TablesFixture *fixture = nullptr;

  void
  finish (TpsWriter *reply)
  {
    std::lock_guard<std::mutex> guard (lock);

    EXPECT_FALSE (come);
    scan = scan_bytes (join_pieces (reply));
    tps_writer_free (reply);
    come = true;
    changed.notify_all ();
  }

  std::shared_ptr<Answer> self; /* keeps the object alive while the call is open */

private:
  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock);
    changed.wait (guard, [&] { return come; });
  }

  void
  read_error ()
  {
    TpsReader in;
    TpsWireType type;
    gint16 id;

    error_code = 0;
    tps_reader_init (&in, scan.messages.at (0));
    if (!tps_reader_field (&in, &id, &type) || id != 1)
      return;
    while (tps_reader_field (&in, &id, &type))
      if (id == 1)
        error_code = tps_reader_i32 (&in);
      else if (id == 2)
        {
          TpsBytesView view = tps_reader_binary (&in);

          error_text.assign (reinterpret_cast<const char *> (view.data), view.n_bytes);
        }
      else
        tps_reader_skip (&in, type);
  }

  std::mutex lock;
  std::condition_variable changed;
  bool come = false;
  Scan scan;
  int error_code = 0;
  std::string error_text;
};

using Reply = std::shared_ptr<Answer>;

class TablesFixture : public testing::Test
{
protected:
  TablesFixture ()
  {
    TpsBudgetLimits limits = {};
    limits.max_table_bytes = 64 << 20;
    g_autoptr (TpsBudgets) budgets = tps_budgets_new (&limits);
    TpsTableStoreOptions options = {};
    TpsService service;

    options.pushes.window = 64;
    workers = tps_worker_pool_new ("tables", 2);
    options.budgets = budgets;
    options.workers = workers;
    options.find_device = [] (const gchar *, GError **error) {
      return tps_device_find ("cpu", error); /* reached through the table of operations */
    };
    store = tps_table_store_new (&options);
    tables = tps_embedding_tables_new (store);
    service = tps_embedding_table_service (tables);
    dispatcher = tps_dispatcher_new (&service, 1, nullptr, nullptr);
  }

  ~TablesFixture () override
  {
    tps_worker_pool_free (workers);
    tps_dispatcher_unref (dispatcher);
    tps_embedding_tables_free (tables);
    tps_table_store_free (store);
  }

  Reply
  call (const char *method, void (*encode) (TpsWriter *, gconstpointer), gconstpointer arguments,
        bool may_wait = true)
  {
    static const TpsCarrierOps ops = { get_may_wait, nullptr, run_on_worker, finish, get_is_alone };
    g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
    Reply reply = std::make_shared<Answer> ();
    Scan scan;

    tps_writer_message_begin (out, method, TPS_MESSAGE_CALL, 1);
    tps_writer_struct_begin (out);
    if (encode != nullptr)
      encode (out, arguments);
    tps_writer_struct_end (out);
    EXPECT_TRUE (tps_writer_message_end (out, nullptr));
    scan = scan_bytes (join_pieces (out));
    reply->may_wait = may_wait;
    reply->fixture = this;
    reply->self = reply;
    tps_dispatcher_handle (dispatcher, scan.messages.at (0), nullptr, nullptr, &ops, reply.get ());
    scan.messages.clear ();
    return reply;
  }

  /* ---- the methods -------------------------------------------------------------------------- */

  Reply
  create (const char *name, gint64 rows = 10, gint32 dim = 4, const char *device = "")
  {
    g_auto (TpsTableSpec) spec = {};

    tps_table_spec_init (&spec, name, rows, dim);
    spec.initializer.kind = TPS_INITIALIZER_ZEROS;
    spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
    g_strlcpy (spec.place.device, device, sizeof spec.place.device);
    return call ("create_table", WriteArgumentsOf<tps_create_table_rpc>, &spec);
  }

  Reply
  lookup_rows (const char *name, const std::vector<gint64> &indices)
  {
    TpsLookupRowsArguments arguments = { const_cast<gchar *> (name), tensor_of (indices) };
    Reply reply = call ("lookup_rows", WriteArgumentsOf<tps_lookup_rows_rpc>, &arguments);

    tps_tensor_clear (&arguments.indices);
    return reply;
  }

  /* Pushes a gradient whose values are all `value`. */
  Reply
  push_rows (const char *name, const std::vector<gint64> &indices, float value,
             const char *client = nullptr, gint64 sequence = 0, bool may_wait = true)
  {
    TpsApplyRowGradientsArguments arguments = {};
    gint32 dim = 4;
    Reply reply;

    arguments.table = const_cast<gchar *> (name);
    arguments.gradient.kind = TPS_GRADIENT_SPARSE;
    arguments.gradient.rows = 10;
    arguments.gradient.indices = tensor_of (indices);
    tps_tensor_init_2d (&arguments.gradient.values, TPS_DTYPE_FLOAT32,
                        static_cast<gint64> (indices.size ()), dim);
    for (gsize i = 0; i < indices.size () * 4; i++)
      static_cast<float *> (tps_tensor_data (&arguments.gradient.values))[i] = value;
    arguments.push = { const_cast<gchar *> (client), sequence };
    reply = call ("apply_row_gradients", WriteArgumentsOf<tps_apply_row_gradients_rpc>, &arguments,
                  may_wait);
    tps_gradient_clear (&arguments.gradient);
    return reply;
  }

  /* Pushes one summed bag per index, with a gradient of `value` in each column. */
  Reply
  push_bags (const char *name, const std::vector<gint64> &indices, float value,
             const char *client = nullptr, gint64 sequence = 0)
  {
    std::vector<gint64> offsets;
    std::vector<float> values (indices.size () * 4, value);
    gint64 n_bags = static_cast<gint64> (indices.size ());
    TpsBagGradient gradient = {};
    TpsApplyBagGradientsArguments arguments = {
      1, &gradient, { const_cast<gchar *> (client), sequence }, nullptr
    };

    for (gint64 i = 0; i < n_bags; i++)
      offsets.push_back (i);
    gradient.query = query_of (name, indices, offsets);
    gradient.gradient = { { TPS_DTYPE_FLOAT32, 2, { n_bags, 4 } }, values.data () };
    return call ("apply_bag_gradients", WriteArgumentsOf<tps_apply_bag_gradients_rpc>, &arguments);
  }

  static TpsBagQuery
  query_of (const char *name, const std::vector<gint64> &indices,
            const std::vector<gint64> &offsets)
  {
    TpsBagQuery query = {};

    query.table = name;
    query.indices = { { TPS_DTYPE_INT64, 1, { static_cast<gint64> (indices.size ()) } },
                      indices.data () };
    query.offsets = { { TPS_DTYPE_INT64, 1, { static_cast<gint64> (offsets.size ()) } },
                      offsets.data () };
    query.pooling = TPS_POOLING_SUM;
    return query;
  }

  Reply
  lookup_bags (const std::vector<TpsBagQuery> &queries)
  {
    TpsLookupBagsArguments arguments = { static_cast<guint> (queries.size ()),
                                         const_cast<TpsBagQuery *> (queries.data ()), nullptr };

    return call ("lookup_bags", WriteArgumentsOf<tps_lookup_bags_rpc>, &arguments);
  }

  static TpsTensor
  tensor_of (const std::vector<gint64> &values)
  {
    TpsTensor tensor = {};

    tps_tensor_init_1d (&tensor, TPS_DTYPE_INT64, static_cast<gint64> (values.size ()));
    std::copy (values.begin (), values.end (), static_cast<gint64 *> (tps_tensor_data (&tensor)));
    return tensor;
  }

  static std::vector<float>
  floats_of (const TpsTensor &tensor)
  {
    const float *data = static_cast<const float *> (tps_tensor_data (&tensor));

    return { data, data + tps_shape_n_elems (&tensor.shape) };
  }

  /* Returns the first column of a row. */
  float
  value_of (const char *name, gint64 row)
  {
    g_auto (TpsTensor) rows = {};

    if (!lookup_rows (name, { row })->read (ReadResultOf<tps_lookup_rows_rpc>, &rows))
      return NAN;
    return floats_of (rows)[0];
  }

  TpsWorkerPool *workers;
  TpsTableStore *store;
  TpsEmbeddingTables *tables;
  TpsDispatcher *dispatcher;
  std::atomic<int> n_on_workers { 0 };
  bool is_alone = false; /* the result of the carrier's is_alone() */
  std::mutex lanes_lock;
  std::vector<TpsLane> lanes; /* of the jobs so far */

private:
  static gboolean
  get_may_wait (gpointer carried)
  {
    return static_cast<Answer *> (carried)->may_wait;
  }

  static gboolean
  get_is_alone (gpointer carried)
  {
    return static_cast<Answer *> (carried)->fixture->is_alone;
  }

  static void
  run_on_worker (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc, gpointer user_data)
  {
    TablesFixture *fixture = static_cast<Answer *> (carried)->fixture;

    fixture->n_on_workers++;
    {
      std::lock_guard<std::mutex> guard (fixture->lanes_lock);
      fixture->lanes.push_back (lane);
    }
    tps_worker_pool_submit (fixture->workers, func, user_data);
  }

  static void
  finish (gpointer carried, TpsWriter *reply)
  {
    Reply kept = std::move (static_cast<Answer *> (carried)->self);

    kept->finish (reply);
  }
};

} // namespace thriftps
