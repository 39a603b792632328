/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A client that trains: the calls with large tensors, values in and bits out. */

#pragma once

#include <string>
#include <vector>

#include "plugin/client/client.h"
#include "plugin/client/stubs.h"

namespace tps_test {

using Values = std::vector<float>;

/* Values that every process and every run gives again. */
Values make_values (gsize n_elems, unsigned seed);

/* Far enough for everything that is expected to work. */
gint64 later ();

class SharingClient
{
public:
  explicit SharingClient (const std::string &address, bool no_shared_memory = false);
  explicit SharingClient (const TpsClientOptions &options);
  ~SharingClient ();
  SharingClient (const SharingClient &) = delete;
  SharingClient &operator= (const SharingClient &) = delete;

  /* The bits of what was answered; "" after a failure, which `error ()` then tells. */
  std::string average (gint32 trainer, gint64 batch, const Values &gradient,
                       gint64 deadline_ns = later ());
  /* Sent when it returns; nobody waits for the answer. */
  void push (gint32 trainer, gint64 batch, const Values &gradient);
  std::string update (gint32 trainer, gint64 push, const std::vector<Values> &gradients);
  std::string look_up (const std::string &table, const std::vector<gint64> &ids);
  bool apply (const std::string &table, const std::vector<gint64> &ids, gint64 dim,
              const Values &values);
  bool init_model (const std::vector<Values> &parameters);
  bool create_table (const std::string &table, gint64 rows, gint32 dim);
  /* The answer itself. NULL after a failure; tps_model_version_unref(). */
  TpsModelVersion *get_model ();

  /* Until tensors go out and come in through shared memory; the table "warm" is made where it is
   * not there. FALSE: they do not, within a minute. */
  bool warm_up ();

  TpsSharingStats stats ();
  const std::string &
  error () const
  {
    return error_;
  }

private:
  bool call (const gchar *service, const gchar *method, TpsWriteArguments write,
             gconstpointer arguments, TpsReadResult read, gpointer result, gint64 deadline_ns);
  bool keep_error (GError *error);

  TpsClient *client_;
  std::string error_;
};

}
