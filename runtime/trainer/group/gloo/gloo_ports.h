/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Where Gloo listens. C++; internal to this folder. */

#pragma once

#include <memory>

#include <gloo/transport/device.h>

#include "runtime/trainer/ports/process_group.h"

namespace tps {

/* Listens on the options' host, with one port for each other rank until that rank has connected:
 * any ports, or free ones of [first_port, last_port]. With a range, creating the pairs of a context
 * throws Failure when no port is left. */
std::shared_ptr<gloo::transport::Device> make_gloo_device (const TpsProcessGroupOptions *options);

} /* namespace tps */
