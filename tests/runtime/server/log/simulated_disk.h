/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A disk in memory that fails like real disks. A seed chooses the faults.
 *
 * Written data stay in a cache until a sync. A power cut keeps a random part of them, separately
 * for sectors of 512 bytes, file sizes, and names in folders that were not synced. A failed sync
 * also keeps a random part and drops the rest. As on Linux, a second sync then succeeds without the
 * dropped data.
 *
 * Thread: any, except for the functions that access the contents of files. */

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/server/log/disk.h"

namespace thriftps {

class SimulatedDisk
{
public:
  explicit SimulatedDisk (uint32_t seed = 1);
  ~SimulatedDisk ();
  SimulatedDisk (const SimulatedDisk &) = delete;
  SimulatedDisk &operator= (const SimulatedDisk &) = delete;

  TpsDisk *get ();

  /* Makes the power fail in the middle of the n-th changing operation from now. All later
   * operations fail. */
  void cut_after (uint64_t n_operations);
  /* Makes the power fail now. */
  void cut ();
  /* Make the n-th sync or write from now fail with EIO. */
  void fail_sync (uint64_t n);
  void fail_write (uint64_t n);
  /* Makes each open() of this file fail, as without free descriptors. "" = no file. */
  void set_unreadable (const std::string &path);
  /* Limits the total space of all files. */
  void set_capacity (uint64_t n_bytes);
  /* Sets a function that runs inside each preallocate() from now on. Must not be called while other
   * threads use the disk. */
  void
  set_during_preallocate (std::function<void ()> function)
  {
    during_preallocate_ = std::move (function);
  }

  bool is_off () const;
  /* Return the number of changing operations so far, and the numbers of writes and syncs of files
   * among them. */
  uint64_t get_operations () const;
  uint64_t get_writes () const;
  uint64_t get_syncs () const;
  /* Returns the number of bytes that were read directly. */
  uint64_t get_direct_bytes () const;

  /* Cuts the power if it is on, drops unsynced data, and restarts the disk. Afterwards no file is
   * open, and no lock is held. */
  void restart ();

  /* Flips a bit on the medium, in a file whose name ends with `suffix`. Returns the file's name, or
   * an empty string if there is no such file. */
  std::string flip_bit (const std::string &suffix);

  /* Return, make or remove a file as the system sees it, for tests that damage it directly. */
  std::string &get_file (const std::string &path);
  void put_file (const std::string &path, const std::string &bytes);
  bool has_file (const std::string &path) const;
  void remove_file (const std::string &path);
  std::vector<std::string> get_paths () const;

private:
  struct Inode
  {
    std::string data;       /* as the system sees it */
    std::string durable;    /* on the medium */
    std::set<size_t> dirty; /* sectors of `data` that a sync must write */
  };
  struct Disk;
  struct File;
  /* A change of names that has not reached the medium yet. A NULL inode removes the name. */
  struct NameChange
  {
    std::vector<std::pair<std::string, std::shared_ptr<Inode>>> names;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  bool step (GError **error, const char *operation, const std::string &path);
  bool chance (double probability);
  void keep_some (Inode *inode);
  void write_sector (Inode *inode, size_t sector);
  bool sync_inode (Inode *inode, const std::string &path, GError **error);
  void change (NameChange change);
  /* A folder exists while it contains files. The system may remove an empty folder. */
  bool has_files_in (const std::string &folder) const;
  static void apply (Names *names, const NameChange &change);
  uint64_t get_used () const;
  static SimulatedDisk *of (TpsDisk *disk);
  std::unique_lock<std::mutex>
  guard () const
  {
    return std::unique_lock<std::mutex> (lock_);
  }
  static TpsDisk make_functions ();

  std::unique_ptr<Disk> disk_;
  mutable std::mutex lock_;
  std::mt19937 random_;
  Names names_, durable_names_;
  std::vector<NameChange> changes_;
  std::set<std::string> locks_;
  uint64_t n_operations_ = 0, cut_at_ = UINT64_MAX;
  uint64_t n_syncs_ = 0, fail_sync_at_ = UINT64_MAX;
  uint64_t n_writes_ = 0, fail_write_at_ = UINT64_MAX;
  uint64_t capacity_ = UINT64_MAX, n_direct_bytes_ = 0;
  std::string unreadable_;
  bool is_off_ = false;
  std::function<void ()> during_preallocate_;
};

} // namespace thriftps
