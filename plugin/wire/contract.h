/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Descriptors of all methods of thrift/. */

#pragma once

#include "plugin/wire/descriptor.h"

/* All methods, ended by NULL. */
extern const TpsRpc *const tps_contract[];
