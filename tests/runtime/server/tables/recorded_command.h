/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A command that an observer received, with all the memory to which its record refers. */

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/server/command.h"
#include "tests/runtime/server/tables/tables.h"

namespace embedding_test {

class RecordedCommand
{
public:
  explicit RecordedCommand (const TpsCommand *from) : command (*from)
  {
    if (command.id.client != nullptr)
      command.id.client = keep (command.id.client);
    for (guint i = 0; i < command.n_tables; i++)
      {
        tables.push_back (from->tables[i]);
        tables.back ().name = keep (from->tables[i].name);
      }
    command.tables = tables.data ();
    if (command.kind == TPS_COMMAND_CREATE_TABLE)
      {
        spec.reset (new Spec (*from->create));
        command.create = &spec->value;
      }
    else if (command.kind == TPS_COMMAND_DROP_TABLE)
      command.drop = keep (from->drop);
    else if (command.kind != TPS_COMMAND_APPLY_BAGS)
      command.rows = { keep (from->rows.indices), keep (from->rows.values), from->rows.as_of_lsn };
    else
      keep_bags (from);
  }
  RecordedCommand (const RecordedCommand &) = delete;
  RecordedCommand &operator= (const RecordedCommand &) = delete;

  TpsCommand command;

private:
  const gchar *
  keep (const gchar *text)
  {
    texts.emplace_back (new std::string (text));
    return texts.back ()->c_str ();
  }

  TpsTensorView
  keep (TpsTensorView view)
  {
    if (view.shape.dtype == 0)
      return view;
    const char *data = static_cast<const char *> (view.data);
    size_t n_bytes = tps_shape_n_bytes (&view.shape);

    bytes.emplace_back (data, data + n_bytes);
    bytes.back ().resize (n_bytes + 8); /* never empty, so that data() is not NULL */
    view.data = bytes.back ().data ();
    return view;
  }

  void
  keep_bags (const TpsCommand *from)
  {
    for (guint i = 0; i < from->bags.n_gradients; i++)
      {
        TpsBagGradient gradient = from->bags.gradients[i];

        gradient.query.table = keep (gradient.query.table);
        gradient.query.indices = keep (gradient.query.indices);
        gradient.query.offsets = keep (gradient.query.offsets);
        gradient.query.weights = keep (gradient.query.weights);
        gradient.gradient = keep (gradient.gradient);
        gradients.push_back (gradient);
      }
    command.bags = { from->bags.n_gradients, gradients.data () };
  }

  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<std::vector<char>> bytes;
  std::vector<TpsCommandTable> tables;
  std::unique_ptr<Spec> spec;
  std::vector<TpsBagGradient> gradients;
};

} // namespace embedding_test
