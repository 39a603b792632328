/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Process groups on NCCL: the interface TPS_DEVICE_GROUPS_INTERFACE of //cuda:libtps_cuda.so. */

#pragma once

#include "runtime/trainer/group/device_groups.h"

G_BEGIN_DECLS

/* See TpsDeviceGroups for the contract of each function. */
extern const TpsDeviceGroups tps_nccl_groups;

G_END_DECLS
