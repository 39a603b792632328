/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random commands of all kinds, generated from a seed, with the memory to which they refer. */

#pragma once

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/server/command.h"
#include "runtime/server/log/log_format.h"

namespace thriftps {

class RandomCommand
{
public:
  /* `max_bytes` is the approximate maximum size of a tensor. */
  RandomCommand (uint32_t seed, gint64 lsn, TpsCommandKind kind, size_t max_bytes);
  ~RandomCommand ();
  RandomCommand (const RandomCommand &) = delete;
  RandomCommand &operator= (const RandomCommand &) = delete;

  TpsCommand record {};

private:
  gint64 up_to (gint64 max);
  const char *text (size_t max_length);
  TpsCommandId id ();
  TpsTensor *tensor (TpsDType dtype, std::vector<gint64> dims);
  TpsTensorView view (TpsDType dtype, std::vector<gint64> dims);
  void add_tables (guint n);
  void make_create ();
  void make_rows ();
  void make_bags ();
  void make_model ();
  void make_update ();

  std::mt19937 random_;
  size_t max_bytes_;
  std::deque<std::string> texts_;
  std::deque<TpsTensor> tensors_;
  std::vector<TpsCommandTable> tables_;
  TpsTableSpec spec_ {};
  TpsOptimizerSpec optimizer_ {};
  std::vector<TpsBagGradient> gradients_;
  std::vector<TpsNamedTensor> parameters_;
  std::vector<std::vector<TpsTensor>> contributed_;
  std::vector<TpsCommandContribution> contributions_;
  std::vector<TpsCommandId> ids_;
};

inline constexpr TpsCommandKind kAllKinds[] = { TPS_COMMAND_CREATE_TABLE, TPS_COMMAND_DROP_TABLE,
                                                TPS_COMMAND_APPLY_ROWS,   TPS_COMMAND_APPLY_BAGS,
                                                TPS_COMMAND_INIT_MODEL,   TPS_COMMAND_UPDATE_MODEL,
                                                TPS_COMMAND_RESET_MODEL,  TPS_COMMAND_ASSIGN_ROWS };

/* Returns the record of a command as bytes. Commands with the same bytes are equal. */
std::string encode (const TpsCommand *command);

/* A copy of a command, as the log writes and reads it. */
class LoggedCommand
{
public:
  explicit LoggedCommand (const TpsCommand *from);
  ~LoggedCommand ();
  LoggedCommand (const LoggedCommand &) = delete;
  LoggedCommand &operator= (const LoggedCommand &) = delete;

private:
  TpsBuffer *buffer_;
  TpsRecordDecoder decoder_;

public:
  const TpsCommand &command = decoder_.command;
};

} // namespace thriftps
