/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A simulated disk as a file system that other processes use, through FUSE. What they have not
 * synced is lost at a power cut of the disk: data by sectors, names by folders. Folders
 * themselves are never lost. */

#pragma once

#include <memory>
#include <string>

#include "tests/runtime/server/log/simulated_disk.h"

namespace history {

class FuseMount
{
public:
  /* Mounts `disk`, which must live longer, at the folder `path`. NULL: `why` says why that is
     not possible here. */
  static std::unique_ptr<FuseMount> create (thriftps::SimulatedDisk *disk, const std::string &path,
                                            std::string *why);
  virtual ~FuseMount () = default;
};

} // namespace history
