/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stores, queries and naive results for the tests of this folder. */

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/server/tables/table_store.h"

namespace embedding_test {

using Ids = std::vector<int64_t>;
using Floats = std::vector<float>;

TpsTensorView view (const Ids &values);
TpsTensorView view (const Floats &values);              // [n]
TpsTensorView view (const Floats &values, int64_t dim); // [n, dim]

/* A specification under construction. `value` is the runtime's specification. */
class Spec
{
public:
  Spec (const std::string &name, int64_t rows, int32_t dim);
  Spec (const Spec &other);
  explicit Spec (const TpsTableSpec &other);
  Spec &operator= (const Spec &) = delete;
  ~Spec ();

  Spec &dtype (TpsDType dtype, TpsRounding rounding = TPS_ROUNDING_NEAREST);
  Spec &zeros ();
  Spec &uniform (double low, double high, int64_t seed);
  Spec &normal (int64_t seed);
  Spec &optimizer (TpsOptimizerKind kind, double learning_rate);
  Spec &shard (const TpsShard &shard);
  Spec &on (const std::string &device, bool is_host_memory = false);

  TpsTableSpec value;
};

TpsShard range_shard (int64_t rows, int32_t index, int32_t count);
TpsShard hash_shard (int64_t rows, int32_t index, int32_t count);
TpsShard whole (int64_t rows);
/* Returns the ids of all rows, in the order of their slots. */
Ids ids_of (const TpsShard &shard);

struct Query
{
  std::string table;
  Ids indices;
  Ids offsets;
  TpsPooling pooling = TPS_POOLING_SUM;
  Floats weights = {};

  TpsBagQuery get () const; // the result borrows this object's memory
  size_t
  n_bags () const
  {
    return offsets.size ();
  }
  size_t
  begin (size_t bag) const
  {
    return static_cast<size_t> (offsets[bag]);
  }
  size_t
  end (size_t bag) const
  {
    return bag + 1 < offsets.size () ? begin (bag + 1) : indices.size ();
  }
};

/* Returns up to `max_bags` bags of up to `max_count` ids each. Some bags are empty, and many ids
 * repeat. */
Query random_query (std::mt19937_64 &random, const std::string &table, int64_t rows,
                    size_t max_bags, size_t max_count, TpsPooling pooling, bool weighted);

/* Returns a table of normal numbers whose optimizer has decay, and momentum if it supports that. */
Spec spec_of (const std::string &name, int64_t rows, int32_t dim, TpsOptimizerKind kind);

/* Returns multiples of 1/256 in [-4, 4], whose sums need no rounding. */
Floats random_floats (std::mt19937_64 &random, size_t n);

/* Computes the expected bits of a lookup, row by row. `row` returns a row as FLOAT32. */
Floats naive_pool (const Query &query, size_t dim, const std::function<Floats (int64_t)> &row);

/* Returns the result of a call: "", or the code and message of the error. */
std::string describe (GError *error); // frees it

/* The function with which a store finds devices, and the default device of tables ("": the CPU). */
struct Devices
{
  TpsDevice *(*find) (const gchar *name, GError **error);
  std::string default_name = "";
};

/* The limits of a store's budgets in bytes; 0 = none. Replies include temporary space. */
struct Limits
{
  size_t tables = size_t { 1 } << 30;
  size_t replies = 0;
};

/* A table store with its workers. Its calls return errors as text, so that a test can expect
 * them. */
class Store
{
public:
  explicit Store (unsigned n_workers = 0, const Limits &limits = {});
  Store (unsigned n_workers, const Devices &devices);
  explicit Store (const TpsTableStoreOptions &options);
  ~Store ();
  Store (const Store &) = delete;
  Store &operator= (const Store &) = delete;

  /* Each returns the text of describe(). */
  std::string create (const Spec &spec);
  std::string drop (const std::string &table);
  std::string lookup (const std::vector<Query> &queries, std::vector<Floats> *outputs);
  std::string rows (const std::string &table, const Ids &indices, std::string *bytes);
  std::string apply_rows (const std::string &table, const Ids &indices, const Floats &values,
                          int64_t dim);
  std::string apply_bags (const std::vector<Query> &queries, const std::vector<Floats> &gradients,
                          int64_t dim);

  /* Returns all rows of a whole table as bytes. */
  std::string dump (const std::string &table, int64_t rows);
  /* Returns one row as FLOAT32. */
  Floats row (const std::string &table, TpsDType dtype, int64_t id);
  Floats pooled (const Query &query); // fails the test if the lookup fails

  TpsTableStore *
  get ()
  {
    return store_;
  }

private:
  void start (unsigned n_workers, TpsTableStoreOptions options, const Limits &limits);

  TpsWorkerPool *workers_;
  TpsTableStore *store_;
};

/* Converts `bytes`, elements of `dtype`, to FLOAT32. */
Floats to_floats (const std::string &bytes, TpsDType dtype);

} // namespace embedding_test
