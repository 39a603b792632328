/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/ddp/collectives.h"

#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/fakes.h"

std::vector<TpsProcessGroup *>
join_groups (const char *backend, guint n_ranks, gint64 timeout_ns, bool shares_memory)
{
  std::vector<TpsProcessGroup *> groups (n_ranks);
  MemoryStore shared;

  run_ranks (n_ranks, [&] (guint rank) {
    TpsStore *store = shared.open ();
    TpsProcessGroupOptions options = {};
    GError *error = nullptr;

    options.rank = rank;
    options.size = n_ranks;
    options.store = store;
    options.prefix = "pass-1/group/";
    options.timeout_ns = timeout_ns;
    options.no_shared_memory = !shares_memory;
    groups[rank] = tps_process_group_new (backend, &options, &error);
    if (groups[rank] == nullptr)
      g_error ("rank %u: %s", rank, error->message);
    store->ops->free (store);
  });
  return groups;
}

void
free_groups (const std::vector<TpsProcessGroup *> &groups)
{
  run_ranks (static_cast<guint> (groups.size ()),
             [&] (guint r) { groups[r]->ops->free (groups[r]); });
}

void
Waiter::done (gpointer user_data, const GError *error)
{
  Waiter *self = static_cast<Waiter *> (user_data);

  self->promise_.set_value (error == nullptr ? std::string ()
                                             : std::string (tps_error_code_name (error->code))
                                                   + ": " + error->message);
}

std::string
all_reduce (TpsProcessGroup *group, gpointer data, gsize n_elems)
{
  Waiter waiter;

  group->ops->all_reduce_f32 (group, static_cast<gfloat *> (data), n_elems, Waiter::done, &waiter);
  return waiter.wait ();
}
