// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Calls of ParameterServer.average_gradient, by hand.

#pragma once

#include <string>
#include <vector>

#include "runtime/tensor/dtype.h"
#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {

// average_gradient (trainer, batch, 0, dense FLOAT32 [n_elems] filled with `value`).
WriteFields Push (gint32 trainer, gint64 batch, gint64 n_elems, float value);

// The same for any type, with the given elements.
WriteFields PushBytes (gint32 trainer, gint64 batch, TpsDType dtype, gint64 n_elems,
                       const std::string &bytes, gint32 param_loc = 0);

// The elements of Gradient.dense in a reply.
std::vector<float> Average (const Message &answer);

} // namespace thriftps_test
