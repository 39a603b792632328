/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_embedding_table.h"

#include <cmath>

#include "tests/plugin/wire/wire_fields.h"

namespace thriftps {
namespace {

void
expect_equal_specs (const TpsTableSpec &a, const TpsTableSpec &b)
{
  EXPECT_STREQ (a.name, b.name);
  EXPECT_EQ (a.dim, b.dim);
  EXPECT_EQ (a.dtype, b.dtype);
  EXPECT_EQ (a.rounding, b.rounding);
  EXPECT_EQ (a.bytes, b.bytes);
  EXPECT_TRUE (tps_shard_equal (&a.shard, &b.shard));
  EXPECT_EQ (a.initializer.kind, b.initializer.kind);
  EXPECT_EQ (a.initializer.seed, b.initializer.seed);
  EXPECT_EQ (std::isnan (a.initializer.low), std::isnan (b.initializer.low));
  EXPECT_EQ (a.initializer.stdev, b.initializer.stdev);
  EXPECT_EQ (a.optimizer.kind, b.optimizer.kind);
  EXPECT_EQ (a.optimizer.learning_rate, b.optimizer.learning_rate);
  EXPECT_EQ (std::isnan (a.optimizer.beta1), std::isnan (b.optimizer.beta1));
  EXPECT_STREQ (a.place.device, b.place.device);
  EXPECT_EQ (a.place.is_host_memory, b.place.is_host_memory);
  EXPECT_EQ (a.durability, b.durability);
}

TpsTableSpec
new_spec (const char *name, TpsShardKind kind)
{
  TpsTableSpec spec;

  tps_table_spec_init (&spec, name, 1001, 16);
  spec.dtype = TPS_DTYPE_BFLOAT16;
  spec.rounding = kind == TPS_SHARD_HASH ? TPS_ROUNDING_NEAREST : TPS_ROUNDING_STOCHASTIC;
  spec.initializer.stdev = 0.25;
  spec.initializer.mean = 1;
  spec.initializer.seed = -7;
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_ADAM, 0.125);
  tps_table_place_parse (kind == TPS_SHARD_RANGE ? "cuda:3" : "cuda:12/host", &spec.place);
  spec.durability = kind == TPS_SHARD_WHOLE ? TpsDurability (0) : TPS_DURABILITY_INTERVAL;
  if (kind == TPS_SHARD_RANGE)
    tps_shard_init_range (&spec.shard, 1001, 10, 20, nullptr);
  if (kind == TPS_SHARD_HASH)
    tps_shard_init_hash (&spec.shard, 1001, 2, 3, nullptr);
  EXPECT_EQ (spec.shard.kind, kind);
  return spec;
}

constexpr TpsShardKind shard_kinds[] = { TPS_SHARD_WHOLE, TPS_SHARD_RANGE, TPS_SHARD_HASH };

TEST (WireTableSpec, comesAsItWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (TpsShardKind kind : shard_kinds)
      {
        g_auto (TpsTableSpec) sent = new_spec ("emb.0", kind);
        g_auto (TpsTableSpec) got = {};
        WireMessage message (
            [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_create_table_rpc, out, &sent); },
            protocol);

        ASSERT_TRUE (
            tps_rpc_read_arguments (&tps_create_table_rpc, message.arguments (), &got, nullptr));
        expect_equal_specs (got, sent);
      }
}

TEST (WireTableSpec, listsComeAsTheyWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (guint n_specs : { 0u, 3u })
      {
        g_auto (TpsTableSpecs) sent = {}, got = {};
        TpsWireType type;

        for (guint i = 0; i < n_specs; i++)
          {
            g_auto (TpsTableSpec) spec = new_spec ("emb", shard_kinds[i]);

            spec.bytes = 1000 * i;
            ASSERT_TRUE (tps_table_specs_add (&sent, &spec, nullptr));
          }
        WireMessage message (
            [&] (TpsWriter *out) { tps_rpc_write_result (&tps_list_tables_rpc, out, &sent); },
            protocol);
        TpsReader *in = message.result (&type);

        ASSERT_TRUE (tps_rpc_read_result (&tps_list_tables_rpc, in, type, &got, nullptr));
        ASSERT_EQ (got.n_specs, n_specs);
        for (guint i = 0; i < n_specs; i++)
          expect_equal_specs (got.specs[i], sent.specs[i]);
      }
}

/* The required fields: name, rows, dim, dtype. */
const std::vector<Field> spec_fields = { text (1, "emb"), i64 (2, 100), i32 (3, 4), i32 (4, 1) };

Write
plus (std::vector<Field> more)
{
  std::vector<Field> fields = spec_fields;

  fields.insert (fields.end (), more.begin (), more.end ());
  return without (fields, fields.size ());
}

bool
decode_spec (const Write &fields, TpsTableSpec *spec)
{
  WireMessage message ([&] (TpsWriter *out) { put_struct (out, 1, fields); });

  return tps_rpc_read_arguments (&tps_create_table_rpc, message.arguments (), spec, nullptr);
}

TEST (WireTableSpec, absentFieldsHaveDefaults)
{
  g_auto (TpsTableSpec) spec = {};

  ASSERT_TRUE (decode_spec (plus ({}), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_WHOLE);
  EXPECT_EQ (spec.shard.n_rows, 100);
  EXPECT_EQ (spec.initializer.kind, TPS_INITIALIZER_NORMAL);
  EXPECT_EQ (spec.initializer.seed, 0);
  EXPECT_TRUE (std::isnan (spec.initializer.mean));
  EXPECT_EQ (spec.optimizer.kind, TPS_OPTIMIZER_SGD);
  EXPECT_EQ (spec.optimizer.learning_rate, 0.01);
  EXPECT_TRUE (std::isnan (spec.optimizer.momentum));
  EXPECT_EQ (spec.bytes, 0);
  EXPECT_EQ (spec.rounding, TPS_ROUNDING_NEAREST);
  EXPECT_STREQ (spec.place.device, "");
  EXPECT_FALSE (spec.place.is_host_memory);
}

TEST (WireTableSpec, shardsAreToldByTheirFields)
{
  g_auto (TpsTableSpec) spec = {};

  ASSERT_TRUE (decode_spec (plus ({ i64 (7, 10) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_RANGE);
  EXPECT_EQ (spec.shard.n_rows, 90);
  ASSERT_TRUE (decode_spec (plus ({ i64 (7, 0), i64 (11, 30) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_RANGE);
  EXPECT_EQ (spec.shard.n_rows, 30);
  ASSERT_TRUE (decode_spec (plus ({ i32 (9, 0), i32 (10, 3) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_HASH);
  EXPECT_EQ (spec.shard.n_rows, 34);
  ASSERT_TRUE (decode_spec (plus ({ i32 (9, 0), i32 (10, 3), i64 (11, 34) }), &spec));
  ASSERT_TRUE (decode_spec (plus ({ i64 (11, 100) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_WHOLE);
}

std::string
spec_refusal (const Write &fields)
{
  return refusal ([&] (TpsWriter *out) { put_struct (out, 1, fields); },
                  [] (TpsReader *in, GError **error) {
                    g_auto (TpsTableSpec) spec = {};

                    return tps_rpc_read_arguments (&tps_create_table_rpc, in, &spec, error);
                  });
}

TEST (WireTableSpec, missingFieldsAreNamed)
{
  const char *const names[] = { "name", "rows", "dim", "dtype" };

  for (gsize i = 0; i < spec_fields.size (); i++)
    EXPECT_EQ (spec_refusal (without (spec_fields, i)),
               "spec." + std::string (names[i]) + " is missing");
  EXPECT_EQ (spec_refusal (plus ({ structure (5, [] (TpsWriter *) {}) })),
             "spec.initializer.kind is missing");
  EXPECT_EQ (spec_refusal (plus ({ structure (6, i32 (1, 1)) })),
             "spec.optimizer.learning_rate is missing");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 0) })), "spec.shard_count is missing");
  EXPECT_EQ (spec_refusal (plus ({ i32 (10, 2) })), "spec.shard_index is missing");
}

TEST (WireTableSpec, badFieldsAreNamed)
{
  EXPECT_EQ (spec_refusal (instead (spec_fields, 0, text (1, "a b"))),
             "spec.name is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 1, i64 (2, 0))), "spec.rows is 0, expected > 0");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 1, i64 (2, G_MININT64))),
             "spec.rows is -9223372036854775808, expected > 0");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 1, i32 (2, 5))),
             "spec.rows is of type i32, expected i64");
  EXPECT_EQ (spec_refusal (plus ({ text (12, std::string (31, 'c')) })), "");
  EXPECT_EQ (spec_refusal (plus ({ text (12, std::string (32, 'c')) })),
             "spec.device is longer than any device's name, 31 characters");
  EXPECT_EQ (spec_refusal (plus ({ text (12, "cuda 0") })),
             "spec.device is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 3, i32 (4, 7))),
             "spec.dtype is 7, which is not a valid DType");
  EXPECT_EQ (spec_refusal (plus ({ i32 (15, 3) })),
             "spec.rounding is 3, expected 1 (NEAREST) or 2 (STOCHASTIC)");
  EXPECT_EQ (spec_refusal (plus ({ structure (5, i32 (1, 4)) })),
             "spec.initializer.kind is 4, which is not a valid InitializerKind");
  EXPECT_EQ (spec_refusal (plus ({ structure (5,
                                              [] (TpsWriter *out) {
                                                put_i32 (out, 1, 2);
                                                put_double (out, 3, INFINITY);
                                              }) })),
             "spec.initializer.high is inf, expected a finite number");
  EXPECT_EQ (spec_refusal (plus ({ structure (6,
                                              [] (TpsWriter *out) {
                                                put_i32 (out, 1, 1);
                                                put_double (out, 2, NAN);
                                              }) })),
             "spec.optimizer.learning_rate is nan, expected a finite number");
  EXPECT_EQ (spec_refusal (plus ({ number (7, 1) })),
             "spec.first_row is of type double, expected i64");
}

TEST (WireTableSpec, shardsThatCannotBeAreRefused)
{
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, -1) })), "spec.first_row: -1 is not in [0, 100]");
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, 90), i64 (11, 11) })),
             "spec.shard_rows: 11 from row 90 on are not in [0, 100)");
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, 90), i64 (11, -1) })),
             "spec.shard_rows is -1, expected >= 0");
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, 0), i32 (9, 0), i32 (10, 2) })),
             "spec has first_row and shard_count, expected one of them");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 2), i32 (10, 2) })),
             "spec.shard_index: 2 is not in [0, 2)");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 0), i32 (10, 0) })),
             "spec.shard_count: 0, expected at least 1");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 0), i32 (10, 3), i64 (11, 33) })),
             "spec.shard_rows is 33, expected 34, the number of rows of this shard, because "
             "first_row is not set");
  EXPECT_EQ (spec_refusal (plus ({ i64 (11, 50) })),
             "spec.shard_rows is 50, expected 100, the number of rows of this shard, because "
             "first_row is not set");
}

TEST (WireTableSpec, listsNameTheBadTable)
{
  g_autoptr (GError) error = nullptr;
  g_auto (TpsTableSpecs) got = {};
  TpsWireType type;
  WireMessage message (list_of (0, { plus ({}), without (spec_fields, 2) }));
  TpsReader *in = message.result (&type);

  EXPECT_FALSE (tps_rpc_read_result (&tps_list_tables_rpc, in, type, &got, &error));
  EXPECT_STREQ (error->message, "tables[1].dim is missing");
}

TEST (WireTableSpec, namesOfDroppedTablesComeAsTheyWent)
{
  g_autofree gchar *got = nullptr;
  const gchar *name = "emb";
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_drop_table_rpc, out, &name); });

  ASSERT_TRUE (tps_rpc_read_arguments (&tps_drop_table_rpc, message.arguments (), &got, nullptr));
  EXPECT_STREQ (got, "emb");
  EXPECT_EQ (refusal ([] (TpsWriter *) {},
                      [] (TpsReader *in, GError **error) {
                        g_autofree gchar *table = nullptr;

                        return tps_rpc_read_arguments (&tps_drop_table_rpc, in, &table, error);
                      }),
             "table is missing");
}

} // namespace
} // namespace thriftps
