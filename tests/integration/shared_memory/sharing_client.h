/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A training client that makes calls with large tensors. Its functions take values and return
 * bits. */

#pragma once

#include <string>
#include <vector>

#include "plugin/client/client.h"
#include "plugin/client/stubs.h"

namespace tps_test {

using Values = std::vector<float>;

/* Returns values that are the same in every process and every run. */
Values make_values (gsize n_elems, unsigned seed);

/* A deadline that no successful call reaches. */
gint64 later ();

class SharingClient
{
public:
  explicit SharingClient (const std::string &address, bool no_shared_memory = false);
  explicit SharingClient (const TpsClientOptions &options);
  ~SharingClient ();
  SharingClient (const SharingClient &) = delete;
  SharingClient &operator= (const SharingClient &) = delete;

  /* These functions return the bits of the reply. After a failure they return "", and error()
   * describes the failure. */
  std::string average (gint32 trainer, gint64 batch, const Values &gradient,
                       gint64 deadline_ns = later ());
  /* Returns after the request has been sent, without waiting for the reply. */
  void push (gint32 trainer, gint64 batch, const Values &gradient);
  std::string update (gint32 trainer, gint64 push, const std::vector<Values> &gradients);
  std::string look_up (const std::string &table, const std::vector<gint64> &ids);
  bool apply (const std::string &table, const std::vector<gint64> &ids, gint64 dim,
              const Values &values);
  bool init_model (const std::vector<Values> &parameters);
  bool create_table (const std::string &table, gint64 rows, gint32 dim);
  /* Returns the model itself, or NULL after a failure. Release it with tps_model_version_unref().
   * While there is no server, the call waits for one. */
  TpsModelVersion *get_model (gint64 deadline_ns = later ());

  /* Repeats calls until tensors use shared memory in both directions. Creates the table "warm" if
   * it does not exist. Returns false if sharing does not start within a minute. */
  bool warm_up ();

  TpsSharingStats stats ();
  const std::string &
  error () const
  {
    return error_;
  }

private:
  bool keep_error (GError *error);

  TpsClient *client_;
  std::string error_;
};

}
