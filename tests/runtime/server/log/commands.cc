/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/log/commands.h"

#include <algorithm>
#include <cstring>

#include "runtime/server/log/log_format.h"

namespace thriftps {

RandomCommand::RandomCommand (uint32_t seed, gint64 lsn, TpsCommandKind kind, size_t max_bytes)
    : random_ (seed * 1000003u + static_cast<uint32_t> (lsn)), max_bytes_ (max_bytes)
{
  record.lsn = lsn;
  record.kind = kind;
  record.id = id ();
  record.has_failed = up_to (4) == 0;
  switch (kind)
    {
    case TPS_COMMAND_CREATE_TABLE:
      make_create ();
      break;
    case TPS_COMMAND_DROP_TABLE:
      record.drop = text (20);
      break;
    case TPS_COMMAND_APPLY_ROWS:
      make_rows ();
      break;
    case TPS_COMMAND_ASSIGN_ROWS:
      make_rows ();
      record.rows.as_of_lsn = up_to (1) == 0 ? 0 : up_to (lsn);
      break;
    case TPS_COMMAND_APPLY_BAGS:
      make_bags ();
      break;
    case TPS_COMMAND_INIT_MODEL:
      make_model ();
      break;
    case TPS_COMMAND_UPDATE_MODEL:
      make_update ();
      break;
    case TPS_COMMAND_RESET_MODEL:
      break;
    }
}

RandomCommand::~RandomCommand ()
{
  for (TpsTensor &tensor : tensors_)
    tps_tensor_clear (&tensor);
  if (spec_.name != nullptr)
    tps_table_spec_clear (&spec_);
}

/* Returns a random number in [0, max]. */
gint64
RandomCommand::up_to (gint64 max)
{
  return std::uniform_int_distribution<gint64> (0, max) (random_);
}

const char *
RandomCommand::text (size_t max_length)
{
  texts_.emplace_back (1 + up_to (static_cast<gint64> (max_length) - 1), 'a');
  for (char &letter : texts_.back ())
    letter = static_cast<char> ('a' + up_to (25));
  return texts_.back ().c_str ();
}

TpsCommandId
RandomCommand::id ()
{
  TpsCommandId result {};

  if (up_to (3) == 0)
    return result;
  result.client = text (30);
  result.sequence = up_to (1 << 30);
  for (guint8 &byte : result.digest.bytes)
    byte = static_cast<guint8> (up_to (255));
  result.tenant = result.sequence % 2 == 0 ? result.client : nullptr;
  return result;
}

/* Returns random bytes, zeros, or zeros with a few other bytes. The log must not mistake sectors of
 * zeros for lost sectors. */
TpsTensor *
RandomCommand::tensor (TpsDType dtype, std::vector<gint64> dims)
{
  TpsShape shape {};
  gint64 density = up_to (2);

  tps_shape_init (&shape, dtype, static_cast<guint> (dims.size ()), dims.data (), "test", nullptr);
  tensors_.emplace_back ();
  tps_tensor_init_zeroed (&tensors_.back (), &shape);
  auto *bytes = static_cast<guint8 *> (tps_tensor_data (&tensors_.back ()));
  size_t n_bytes = tps_shape_n_bytes (&shape);
  for (size_t i = 0; i < n_bytes && density > 0; i += density == 2 ? 1 : 1 + random_ () % 1500)
    bytes[i] = static_cast<guint8> (random_ ());
  return &tensors_.back ();
}

TpsTensorView
RandomCommand::view (TpsDType dtype, std::vector<gint64> dims)
{
  return tps_tensor_view (tensor (dtype, std::move (dims)));
}

void
RandomCommand::add_tables (guint n)
{
  for (guint i = 0; i < n; i++)
    tables_.push_back ({ text (40), up_to (1 << 20), up_to (3) == 0 });
  record.n_tables = n;
  record.tables = tables_.data ();
}

void
RandomCommand::make_create ()
{
  tps_table_spec_init (&spec_, text (100), 1 + up_to (100000),
                       static_cast<gint32> (1 + up_to (200)));
  if (up_to (1) == 0)
    tps_shard_init_hash (&spec_.shard, spec_.shard.rows, 1, 3, nullptr);
  if (up_to (1) == 0)
    {
      spec_.dtype = TPS_DTYPE_BFLOAT16;
      spec_.rounding = up_to (1) == 0 ? TPS_ROUNDING_STOCHASTIC : TPS_ROUNDING_NEAREST;
    }
  spec_.optimizer = tps_optimizer_spec (static_cast<TpsOptimizerKind> (1 + up_to (4)), 0.125);
  spec_.initializer.kind = static_cast<TpsInitializerKind> (1 + up_to (2));
  spec_.initializer.seed = up_to (1 << 30);
  if (up_to (1) == 0)
    {
      g_strlcpy (spec_.place.device, "cuda:1", sizeof spec_.place.device);
      spec_.place.is_host_memory = up_to (1) == 0;
    }
  spec_.durability = static_cast<TpsDurability> (up_to (3));
  tps_table_spec_resolve (&spec_, nullptr);
  record.create = &spec_;
}

void
RandomCommand::make_rows ()
{
  gint64 dim = up_to (1) == 0 ? 1 + up_to (70) : 64;
  gint64 n = up_to (static_cast<gint64> (max_bytes_) / (4 * dim));

  add_tables (1);
  record.rows.indices = view (TPS_DTYPE_INT64, { n });
  record.rows.values = view (TPS_DTYPE_FLOAT32, { n, dim });
}

void
RandomCommand::make_bags ()
{
  guint n = static_cast<guint> (up_to (3));

  add_tables (n);
  for (guint i = 0; i < n; i++)
    {
      gint64 n_ids = up_to (50), n_bags = 1 + up_to (10), dim = 1 + up_to (20);
      TpsBagGradient gradient {};

      gradient.query.table = tables_[i].name;
      gradient.query.pooling = static_cast<TpsPooling> (1 + up_to (1));
      gradient.query.indices = view (TPS_DTYPE_INT64, { n_ids });
      TpsTensor *offsets = tensor (TPS_DTYPE_INT64, { n_bags });
      for (gint64 bag = 0; bag < n_bags; bag++)
        static_cast<gint64 *> (tps_tensor_data (offsets))[bag] = n_ids * bag / n_bags;
      gradient.query.offsets = tps_tensor_view (offsets);
      if (gradient.query.pooling == TPS_POOLING_SUM && up_to (1) == 0)
        gradient.query.weights = view (TPS_DTYPE_FLOAT32, { n_ids });
      gradient.gradient = view (TPS_DTYPE_FLOAT32, { n_bags, dim });
      gradients_.push_back (gradient);
    }
  record.bags = { n, gradients_.data () };
}

void
RandomCommand::make_model ()
{
  guint n = static_cast<guint> (up_to (4));

  optimizer_ = tps_optimizer_spec (TPS_OPTIMIZER_ADAM, 0.5);
  tps_optimizer_spec_resolve (&optimizer_, "test", nullptr);
  for (guint i = 0; i < n; i++)
    parameters_.push_back ({ const_cast<gchar *> (text (30)),
                             *tensor (TPS_DTYPE_FLOAT32, { 1 + up_to (30), 1 + up_to (30) }) });
  record.model = { n, parameters_.data (), &optimizer_ };
}

void
RandomCommand::make_update ()
{
  guint n_contributions = static_cast<guint> (1 + up_to (3)),
        n_parameters = static_cast<guint> (1 + up_to (3));

  for (guint i = 0; i < n_contributions; i++)
    {
      contributed_.emplace_back ();
      for (guint p = 0; p < n_parameters; p++)
        contributed_.back ().push_back (*tensor (TPS_DTYPE_FLOAT64, { up_to (30) }));
    }
  for (guint i = 0; i < n_contributions; i++)
    contributions_.push_back ({ static_cast<gint32> (i), contributed_[i].data () });
  for (guint i = 0; i < n_contributions; i++)
    ids_.push_back (id ());
  record.update = { n_contributions, n_parameters, contributions_.data (),
                    static_cast<guint> (ids_.size ()), ids_.data () };
}

std::string
encode (const TpsCommand *command)
{
  TpsRecordPlan plan;

  tps_record_plan_set (&plan, command, TRUE);
  std::string bytes (plan.n_bytes, '\1');
  tps_record_encode (&plan, reinterpret_cast<guint8 *> (bytes.data ()));
  return bytes;
}

LoggedCommand::LoggedCommand (const TpsCommand *from)
{
  const std::string bytes = encode (from);
  TpsRecordHead head;

  buffer_ = tps_buffer_new_copy (bytes.data (), bytes.size ());
  tps_record_decoder_init (&decoder_);
  if (!tps_record_decode_head (tps_buffer_get_data (buffer_), &head)
      || !tps_record_decode (&decoder_, &head, buffer_, TPS_LOG_RECORD_HEADER, nullptr))
    abort ();
}

LoggedCommand::~LoggedCommand ()
{
  tps_record_decoder_clear (&decoder_);
  tps_buffer_unref (buffer_);
}

} // namespace thriftps
