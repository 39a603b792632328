/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/tables/tables.h"

#include <cmath>
#include <cstring>

#include "runtime/base/error.h"
#include "tests/float16/float16.h"

namespace embedding_test {

static TpsTensorView
view_of (const void *data, TpsDType dtype, std::vector<int64_t> dims)
{
  TpsTensorView result {};

  result.shape.dtype = dtype;
  result.shape.n_dims = static_cast<guint> (dims.size ());
  for (size_t i = 0; i < dims.size (); i++)
    result.shape.dims[i] = dims[i];
  result.data = data;
  return result;
}

TpsTensorView
view (const Ids &values)
{
  return view_of (values.data (), TPS_DTYPE_INT64, { static_cast<int64_t> (values.size ()) });
}

TpsTensorView
view (const Floats &values)
{
  return view_of (values.data (), TPS_DTYPE_FLOAT32, { static_cast<int64_t> (values.size ()) });
}

TpsTensorView
view (const Floats &values, int64_t dim)
{
  return view_of (values.data (), TPS_DTYPE_FLOAT32,
                  { static_cast<int64_t> (values.size ()) / dim, dim });
}

/* -- specifications -- */

Spec::Spec (const std::string &name, int64_t rows, int32_t dim)
{
  tps_table_spec_init (&value, name.c_str (), rows, dim);
}

Spec::Spec (const Spec &other)
{
  tps_table_spec_copy (&value, &other.value);
}

Spec::Spec (const TpsTableSpec &other)
{
  tps_table_spec_copy (&value, &other);
}

Spec::~Spec ()
{
  tps_table_spec_clear (&value);
}

Spec &
Spec::dtype (TpsDType dtype, TpsRounding rounding)
{
  value.dtype = dtype;
  value.rounding = rounding;
  return *this;
}

Spec &
Spec::zeros ()
{
  value.initializer.kind = TPS_INITIALIZER_ZEROS;
  return *this;
}

Spec &
Spec::uniform (double low, double high, int64_t seed)
{
  value.initializer.kind = TPS_INITIALIZER_UNIFORM;
  value.initializer.low = low;
  value.initializer.high = high;
  value.initializer.seed = seed;
  return *this;
}

Spec &
Spec::normal (int64_t seed)
{
  value.initializer.kind = TPS_INITIALIZER_NORMAL;
  value.initializer.seed = seed;
  return *this;
}

Spec &
Spec::optimizer (TpsOptimizerKind kind, double learning_rate)
{
  value.optimizer = tps_optimizer_spec (kind, learning_rate);
  return *this;
}

Spec &
Spec::shard (const TpsShard &shard)
{
  value.shard = shard;
  return *this;
}

Spec &
Spec::on (const std::string &device, bool is_host_memory)
{
  g_strlcpy (value.place.device, device.c_str (), sizeof value.place.device);
  value.place.is_host_memory = is_host_memory;
  return *this;
}

TpsShard
range_shard (int64_t rows, int32_t index, int32_t count)
{
  int64_t begin = tps_shard_range_begin (rows, index, count);
  TpsShard shard {};

  EXPECT_TRUE (tps_shard_init_range (
      &shard, rows, begin, tps_shard_range_begin (rows, index + 1, count) - begin, nullptr));
  return shard;
}

TpsShard
hash_shard (int64_t rows, int32_t index, int32_t count)
{
  TpsShard shard {};

  EXPECT_TRUE (tps_shard_init_hash (&shard, rows, index, count, nullptr));
  return shard;
}

TpsShard
whole (int64_t rows)
{
  TpsShard shard {};

  tps_shard_init_whole (&shard, rows);
  return shard;
}

Ids
ids_of (const TpsShard &shard)
{
  Ids ids;

  for (int64_t slot = 0; slot < shard.n_rows; slot++)
    ids.push_back (tps_shard_get_row (&shard, slot));
  return ids;
}

/* -- queries -- */

TpsBagQuery
Query::get () const
{
  TpsBagQuery query {};

  query.table = table.c_str ();
  query.indices = view (indices);
  query.offsets = view (offsets);
  query.pooling = pooling;
  if (!weights.empty ())
    query.weights = view (weights);
  return query;
}

Query
random_query (std::mt19937_64 &random, const std::string &table, int64_t rows, size_t max_bags,
              size_t max_count, TpsPooling pooling, bool weighted)
{
  Query query;
  size_t n_bags = 1 + random () % max_bags;

  query.table = table;
  query.pooling = pooling;
  for (size_t bag = 0; bag < n_bags; bag++)
    {
      size_t count = random () % 4 == 0 ? 0 : random () % (max_count + 1);

      query.offsets.push_back (static_cast<int64_t> (query.indices.size ()));
      for (size_t i = 0; i < count; i++)
        query.indices.push_back (static_cast<int64_t> (random () % static_cast<uint64_t> (rows)));
    }
  for (size_t i = 0; weighted && i < query.indices.size (); i++)
    query.weights.push_back (static_cast<float> (random () % 1000) / 300 - 1.5f);
  return query;
}

Floats
naive_pool (const Query &query, size_t dim, const std::function<Floats (int64_t)> &row)
{
  Floats output (query.n_bags () * dim);

  for (size_t bag = 0; bag < query.n_bags (); bag++)
    for (size_t i = query.begin (bag); i < query.end (bag); i++)
      {
        Floats values = row (query.indices[i]);

        for (size_t d = 0; d < dim; d++)
          {
            float &cell = output[bag * dim + d];
            float value = query.weights.empty () ? values[d] : query.weights[i] * values[d];

            cell = i == query.begin (bag) ? value : cell + value;
            if (query.pooling == TPS_POOLING_MEAN && i + 1 == query.end (bag))
              cell /= static_cast<float> (query.end (bag) - query.begin (bag));
          }
      }
  return output;
}

std::string
describe (GError *error)
{
  std::string text;

  if (error == nullptr)
    return "";
  text = std::string (tps_error_code_name (error->code)) + " " + error->message;
  g_error_free (error);
  return text;
}

/* -- stores -- */

void
Store::start (unsigned n_workers, TpsTableStoreOptions options, const Limits &limits)
{
  TpsBudgets budgets {};

  budgets.tables = tps_budget_new (nullptr, "tables", limits.tables);
  budgets.replies = tps_budget_new (nullptr, "replies", limits.replies);
  if (options.budgets == nullptr)
    options.budgets = &budgets;
  workers_ = n_workers > 0 ? tps_worker_pool_new ("tables", n_workers) : nullptr;
  options.workers = workers_;
  store_ = tps_table_store_new (&options);
  tps_budget_unref (budgets.tables);
  tps_budget_unref (budgets.replies);
}

Store::Store (unsigned n_workers, const Limits &limits)
{
  start (n_workers, {}, limits);
}

Store::Store (unsigned n_workers, const Devices &devices)
{
  TpsTableStoreOptions options {};

  options.find_device = devices.find;
  g_strlcpy (options.place.device, devices.default_name.c_str (), sizeof options.place.device);
  start (n_workers, options, {});
}

Store::Store (const TpsTableStoreOptions &options)
{
  start (0, options, {});
}

Store::~Store ()
{
  if (workers_ != nullptr)
    tps_worker_pool_free (workers_);
  tps_table_store_free (store_);
}

std::string
Store::create (const Spec &spec)
{
  GError *error = nullptr;
  gboolean ok = tps_table_store_create (store_, &spec.value, &error);

  EXPECT_EQ (ok, error == nullptr);
  return describe (error);
}

std::string
Store::drop (const std::string &table)
{
  GError *error = nullptr;
  gboolean ok = tps_table_store_drop (store_, table.c_str (), &error);

  EXPECT_EQ (ok, error == nullptr);
  return describe (error);
}

static std::string
bytes_of (const TpsTensor &tensor)
{
  size_t n_bytes = tps_shape_n_bytes (&tensor.shape);

  return n_bytes == 0
             ? std::string ()
             : std::string (static_cast<const char *> (tps_tensor_data (&tensor)), n_bytes);
}

std::string
Store::lookup (const std::vector<Query> &queries, std::vector<Floats> *outputs)
{
  std::vector<TpsBagQuery> views;
  std::vector<TpsTensor> tensors (queries.size ());
  GError *error = nullptr;
  gboolean ok;

  for (const Query &query : queries)
    views.push_back (query.get ());
  ok = tps_table_store_lookup_bags (store_, nullptr, views.data (),
                                    static_cast<guint> (views.size ()), tensors.data (), &error);
  EXPECT_EQ (ok, error == nullptr);
  for (TpsTensor &tensor : tensors)
    {
      EXPECT_EQ (ok, !tps_tensor_is_empty (&tensor)) << "all answers or none";
      if (ok && outputs != nullptr)
        outputs->push_back (to_floats (bytes_of (tensor), TPS_DTYPE_FLOAT32));
      tps_tensor_clear (&tensor);
    }
  return describe (error);
}

Floats
Store::pooled (const Query &query)
{
  std::vector<Floats> outputs;

  EXPECT_EQ (lookup ({ query }, &outputs), "");
  return outputs.empty () ? Floats () : outputs[0];
}

std::string
Store::rows (const std::string &table, const Ids &indices, std::string *bytes)
{
  GError *error = nullptr;
  TpsTensor tensor {};
  gboolean ok = tps_table_store_lookup_rows (store_, nullptr, table.c_str (), view (indices),
                                             &tensor, nullptr, &error);

  EXPECT_EQ (ok, error == nullptr);
  EXPECT_EQ (ok, !tps_tensor_is_empty (&tensor));
  if (ok && bytes != nullptr)
    *bytes = bytes_of (tensor);
  tps_tensor_clear (&tensor);
  return describe (error);
}

std::string
Store::apply_rows (const std::string &table, const Ids &indices, const Floats &values, int64_t dim)
{
  GError *error = nullptr;
  gboolean ok = tps_table_store_apply_rows (store_, table.c_str (), view (indices),
                                            view (values, dim), &error);

  EXPECT_EQ (ok, error == nullptr);
  return describe (error);
}

std::string
Store::apply_bags (const std::vector<Query> &queries, const std::vector<Floats> &gradients,
                   int64_t dim)
{
  std::vector<TpsBagGradient> views;
  GError *error = nullptr;
  gboolean ok;

  for (size_t i = 0; i < queries.size (); i++)
    views.push_back (TpsBagGradient { queries[i].get (), view (gradients[i], dim) });
  ok = tps_table_store_apply_bags (store_, views.data (), static_cast<guint> (views.size ()),
                                   &error);
  EXPECT_EQ (ok, error == nullptr);
  return describe (error);
}

std::string
Store::dump (const std::string &table, int64_t rows)
{
  Ids ids (static_cast<size_t> (rows));
  std::string bytes;

  for (size_t i = 0; i < ids.size (); i++)
    ids[i] = static_cast<int64_t> (i);
  EXPECT_EQ (this->rows (table, ids, &bytes), "");
  return bytes;
}

Floats
Store::row (const std::string &table, TpsDType dtype, int64_t id)
{
  std::string bytes;

  EXPECT_EQ (rows (table, { id }, &bytes), "");
  return to_floats (bytes, dtype);
}

Floats
to_floats (const std::string &bytes, TpsDType dtype)
{
  Floats values (bytes.size () / tps_dtype_size (dtype));

  for (size_t i = 0; i < values.size (); i++)
    {
      guint16 half;

      if (dtype == TPS_DTYPE_FLOAT32)
        {
          memcpy (&values[i], bytes.data () + i * sizeof (float), sizeof (float));
          continue;
        }
      memcpy (&half, bytes.data () + i * sizeof half, sizeof half);
      values[i] = dtype == TPS_DTYPE_FLOAT16 ? tps_float16_to_float (half)
                                             : tps_bfloat16_to_float (half);
    }
  return values;
}

Spec
spec_of (const std::string &name, int64_t rows, int32_t dim, TpsOptimizerKind kind)
{
  Spec spec (name, rows, dim);

  spec.normal (3).optimizer (kind, 0.1);
  spec.value.optimizer.weight_decay = kind == TPS_OPTIMIZER_FTRL ? NAN : 0.01;
  if (kind == TPS_OPTIMIZER_SGD)
    spec.value.optimizer.momentum = 0.9;
  return spec;
}

Floats
random_floats (std::mt19937_64 &random, size_t n)
{
  Floats values (n);

  for (float &value : values)
    value = static_cast<float> (static_cast<int64_t> (random () % 2001) - 1000) / 256;
  return values;
}

} // namespace embedding_test
