/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/local_server.h"

#include <condition_variable>

#include "runtime/base/error.h"

namespace history {
namespace {

constexpr gint64 kSegmentBytes = 64 << 10;
constexpr gsize kStagedBytes = 32 << 10;
/* The window is smaller than kSentAgain, so some repeats arrive below the window's floor. */
constexpr guint kWindow = 48;
constexpr guint kIncrements = 3;
constexpr const char *kTable = "counts";

/* Waits for the end of a number of calls. */
class Ends
{
public:
  explicit Ends (unsigned n) : n_left_ (n)
  {
  }

  void
  end ()
  {
    std::lock_guard<std::mutex> guard (lock_);

    n_left_--;
    changed_.notify_all ();
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [this] { return n_left_ == 0; });
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  unsigned n_left_;
};

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

} // namespace

/* ---- connections ----------------------------------------------------------------------------- */

class LocalServer::LocalConnection : public Connection
{
public:
  explicit LocalConnection (LocalServer *server) : server_ (server)
  {
  }

  Reply
  push (guint column, gint64 sequence, const Rows &rows, unsigned n_copies,
        const std::function<void ()> &acked) override
  {
    const std::string name = "client" + std::to_string (column);
    const std::vector<gint64> ids (rows.begin (), rows.end ());
    std::vector<float> values (rows.size () * server_->size_.n_columns);
    TpsTablePush push = {};
    Sending sending { Ends (n_copies), &acked };

    for (size_t i = 0; i < rows.size (); i++)
      values[i * server_->size_.n_columns + column] = -1;
    push.client = name.c_str ();
    push.sequence = sequence;
    push.may_wait = TRUE;
    push.is_small = rows.size () <= 4;
    push.table = kTable;
    push.indices = view_of (TPS_DTYPE_INT64, ids.data (), ids.size (), 0);
    push.values = view_of (TPS_DTYPE_FLOAT32, values.data (), rows.size (),
                           server_->size_.n_columns);
    for (unsigned i = 0; i < n_copies; i++)
      tps_table_store_push (server_->store_, &push, push_ended, &sending);
    sending.ends.wait ();
    return sending.is_acked ? Reply::ok : Reply::refused;
  }

  Reply
  read (const Rows &rows, std::vector<float> *values) override
  {
    const std::vector<gint64> ids (rows.begin (), rows.end ());
    TpsTensor answer = {};

    if (!tps_table_store_lookup_rows (server_->store_, nullptr, kTable,
                                      view_of (TPS_DTYPE_INT64, ids.data (), ids.size (), 0),
                                      &answer, nullptr, nullptr))
      return Reply::refused;
    auto data = static_cast<const float *> (tps_tensor_data (&answer));
    values->assign (data, data + rows.size () * server_->size_.n_columns);
    tps_tensor_clear (&answer);
    return Reply::ok;
  }

  Reply
  recreate () override
  {
    std::string why;
    bool is_done = tps_table_store_drop (server_->store_, kTable, nullptr)
                   && server_->create_table (&why);

    return is_done ? Reply::ok : Reply::refused;
  }

private:
  struct Sending
  {
    Ends ends;
    const std::function<void ()> *acked;
    std::mutex lock = {};
    bool is_acked = false;
  };

  static void
  push_ended (gpointer user_data, const GError *error)
  {
    auto *sending = static_cast<Sending *> (user_data);

    if (error == nullptr)
      {
        std::lock_guard<std::mutex> guard (sending->lock);

        sending->is_acked = true;
        (*sending->acked) ();
      }
    sending->ends.end ();
  }

  LocalServer *server_;
};

std::unique_ptr<Connection>
LocalServer::connect ()
{
  return std::make_unique<LocalConnection> (this);
}

/* ---- start and end --------------------------------------------------------------------------- */

bool
LocalServer::start (std::string *why)
{
  TpsDurableOptions options = {};
  TpsSequencerOptions ordering = {};
  TpsTableStoreOptions tables = {};
  TpsDurableTargets targets = {};
  g_autoptr (GError) error = nullptr;

  options.folder = "data";
  options.disk = disk_;
  options.log.segment_bytes = kSegmentBytes;
  options.log.max_staged_bytes = kStagedBytes;
  options.snapshot_increments = kIncrements;
  durable_ = tps_durable_new (&options, &error);
  if (durable_ == nullptr)
    {
      *why = error->message;
      return false;
    }
  workers_ = tps_worker_pool_new ("history", 2);
  ordering.workers = workers_;
  tps_durable_init_sequencer (durable_, &ordering);
  sequencer_ = tps_sequencer_new (&ordering);
  tables.sequencer = sequencer_;
  tables.workers = workers_;
  tables.durability = tps_durable_get_durability (durable_);
  tables.keeps_row_lsns = TRUE;
  tables.pushes.window = kWindow;
  store_ = tps_table_store_new (&tables);
  targets.sequencer = sequencer_;
  targets.tables = store_;
  if (tps_durable_start (durable_, &targets, &error) && tps_durable_wait (durable_, &error))
    return true;
  *why = error->message;
  return false;
}

LocalServer::~LocalServer ()
{
  if (durable_ == nullptr)
    return;
  tps_durable_free (durable_);
  tps_table_store_free (store_);
  tps_worker_pool_free (workers_);
  tps_sequencer_free (sequencer_);
}

bool
LocalServer::create_table (std::string *why)
{
  g_auto (TpsTableSpec) spec = {};
  g_autoptr (GError) error = nullptr;

  tps_table_spec_init (&spec, kTable, size_.n_rows, static_cast<gint32> (size_.n_columns));
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  spec.optimizer.kind = TPS_OPTIMIZER_SGD;
  spec.optimizer.learning_rate = 1;
  if (tps_table_store_create (store_, &spec, &error))
    return true;
  *why = error->message;
  return false;
}

void
LocalServer::write_snapshot (bool is_incremental)
{
  Ends ends (1);

  tps_durable_snapshot (
      durable_, is_incremental,
      [] (gpointer user_data, const TpsSnapshotInfo *, const GError *) {
        static_cast<Ends *> (user_data)->end ();
      },
      &ends);
  ends.wait ();
}

} // namespace history
