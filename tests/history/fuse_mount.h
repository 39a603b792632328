/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A simulated disk as a file system for other processes, through FUSE. A power cut of the disk
 * discards writes that were not synced: data by sectors, and names by folders. Folders themselves
 * are never lost. */

#pragma once

#include <memory>
#include <string>

#include "tests/runtime/server/log/simulated_disk.h"

namespace history {

class FuseMount
{
public:
  /* Mounts `disk` at the folder `path`. The disk must outlive the mount. If mounting fails, returns
   * NULL and stores the reason in `*why`. */
  static std::unique_ptr<FuseMount> create (thriftps::SimulatedDisk *disk, const std::string &path,
                                            std::string *why);
  virtual ~FuseMount () = default;
};

} // namespace history
