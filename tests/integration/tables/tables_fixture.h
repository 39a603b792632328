/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Servers, a client for them, and a reference: a table store in this process that gets the same
 * updates. */

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>

#include "plugin/client/remote_tables.h"
#include "runtime/base/error.h"
#include "tests/integration/tables/table_server.h"
#include "tests/plugin/client/tables/max_reference.h"

namespace tps_test {

inline gint64
in_ms (gint64 ms)
{
  return std::chrono::duration_cast<std::chrono::nanoseconds> (
             std::chrono::steady_clock::now ().time_since_epoch ())
             .count ()
         + ms * 1000000;
}

/* A deadline that no successful call reaches. */
inline gint64
later ()
{
  return in_ms (60000);
}

inline TpsRemoteTables *
new_tables (const std::vector<std::string> &addresses, const gchar *client = nullptr,
            bool exact = false)
{
  std::vector<const gchar *> list;
  TpsRemoteTablesOptions options = {};
  g_autoptr (GError) error = nullptr;
  TpsRemoteTables *tables;

  for (const std::string &address : addresses)
    list.push_back (address.c_str ());
  options.addresses = list.data ();
  options.n_addresses = static_cast<guint> (list.size ());
  options.client = client;
  options.exact = exact;
  tables = tps_remote_tables_new (&options, &error);
  EXPECT_NE (tables, nullptr) << error->message;
  return tables;
}

inline std::string
bits_of (const TpsTensor &tensor)
{
  return std::string (static_cast<const char *> (tps_tensor_data (&tensor)),
                      tps_shape_n_bytes (&tensor.shape));
}

inline std::vector<gint64>
all_rows (const TpsTableSpec &spec)
{
  std::vector<gint64> rows (static_cast<size_t> (spec.shard.rows));

  for (size_t i = 0; i < rows.size (); i++)
    rows[i] = static_cast<gint64> (i);
  return rows;
}

class TablesTest : public testing::Test
{
protected:
  TablesTest ()
  {
    TpsTableStoreOptions options = {};

    reference_ = tps_table_store_new (&options);
  }

  ~TablesTest () override
  {
    for (TpsTableSpec &spec : specs_)
      tps_table_spec_clear (&spec);
    g_clear_pointer (&tables_, tps_remote_tables_free);
    g_clear_error (&error_);
    tps_table_store_free (reference_);
  }

  void
  start (guint n_servers, const std::string &transport = "unix")
  {
    for (guint i = 0; i < n_servers; i++)
      {
        servers_.push_back (std::make_unique<TableServer> (transport));
        addresses_.push_back (servers_[i]->address ());
      }
  }

  void
  connect (bool exact = false)
  {
    tables_ = new_tables (addresses_, nullptr, exact);
  }

  /* Creates a table on the servers and in the reference. Takes ownership of the specification. */
  const TpsTableSpec &
  create (TpsTableSpec spec, TpsShardKind kind, guint server = 0)
  {
    TpsTablePlacement placement = { kind, server };

    EXPECT_TRUE (tps_table_spec_resolve (&spec, &error_)) << error_->message;
    EXPECT_TRUE (tps_remote_tables_create_spec (tables_, &spec, &placement, later (), &error_))
        << error_->message;
    EXPECT_TRUE (tps_table_store_create (reference_, &spec, &error_)) << error_->message;
    specs_.push_back (spec);
    return specs_.back ();
  }

  const TpsTableSpec &
  create (const char *name, gint64 rows, gint32 dim, TpsShardKind kind, guint server = 0)
  {
    TpsTableSpec spec;

    tps_table_spec_init (&spec, name, rows, dim);
    return create (spec, kind, server);
  }

  std::string
  rows_here (const TpsTableSpec &spec)
  {
    std::vector<gint64> rows = all_rows (spec);
    g_auto (TpsTensor) values = {};

    EXPECT_TRUE (tps_remote_tables_lookup_rows_sync (tables_, spec.name, view_of (rows), later (),
                                                     &values, &error_))
        << error_->message;
    return bits_of (values);
  }

  std::string
  rows_of_reference (const TpsTableSpec &spec)
  {
    std::vector<gint64> rows = all_rows (spec);
    g_auto (TpsTensor) values = {};

    EXPECT_TRUE (tps_table_store_lookup_rows (reference_, nullptr, spec.name, view_of (rows),
                                              &values, nullptr, &error_));
    return bits_of (values);
  }

  bool
  push (const TpsTableSpec &spec, const Bags &bags, gint64 deadline_ns)
  {
    TpsBagGradient gradient = bags.bag_gradient (spec.dim);

    g_clear_error (&error_);
    return tps_remote_tables_apply_bags_sync (tables_, &gradient, 1, deadline_ns, &error_);
  }

  void
  push_to_reference (const TpsTableSpec &spec, const Bags &bags)
  {
    TpsBagGradient gradient = bags.bag_gradient (spec.dim);

    EXPECT_TRUE (reference_apply_bags (reference_, &gradient, 1, nullptr));
  }

  bool
  look_up (const Bags &bags, gint64 deadline_ns, TpsTensor *output)
  {
    TpsBagQuery query = bags.query ();

    g_clear_error (&error_);
    return tps_remote_tables_lookup_bags_sync (tables_, &query, 1, deadline_ns, output, &error_);
  }

  std::string
  text () const
  {
    return error_ != nullptr ? error_->message : "";
  }
  int
  code () const
  {
    return error_ != nullptr ? error_->code : 0;
  }

  std::vector<std::unique_ptr<TableServer>> servers_;
  std::vector<std::string> addresses_;
  TpsRemoteTables *tables_ = nullptr;
  TpsTableStore *reference_;
  std::deque<TpsTableSpec> specs_;
  GError *error_ = nullptr;
};

}
