/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A disk in memory whose files a test may inspect and damage. It checks the alignment of direct
 * reads and writes. */

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/server/log/disk.h"

namespace snapshot_test {

class MemoryDisk
{
public:
  MemoryDisk ()
  {
    slots.disk = this;
    slots.table = {};
    slots.table.open = open;
    slots.table.close = [] (TpsDiskFile *file) { delete reinterpret_cast<File *> (file); };
    slots.table.get_size = get_size;
    slots.table.preallocate = [] (TpsDiskFile *, gint64, GError **) -> gboolean { return TRUE; };
    slots.table.truncate = truncate;
    slots.table.read = read;
    slots.table.write = write;
    slots.table.sync = [] (TpsDiskFile *, GError **) -> gboolean { return TRUE; };
    slots.table.rename = rename;
    slots.table.link = link;
    slots.table.remove = remove;
    slots.table.make_folder = make_folder;
    slots.table.sync_folder = [] (TpsDisk *, const gchar *, GError **) -> gboolean { return TRUE; };
    slots.table.list = list;
  }
  MemoryDisk (const MemoryDisk &) = delete;
  MemoryDisk &operator= (const MemoryDisk &) = delete;

  TpsDisk *
  get ()
  {
    return &slots.table;
  }

  std::vector<std::string>
  paths ()
  {
    std::vector<std::string> all;

    for (const auto &file : files)
      all.push_back (file.first);
    return all;
  }

  std::mutex lock;
  std::map<std::string, std::shared_ptr<std::string>> files;
  std::set<std::string> folders;
  bool has_links = true;
  std::string unreadable;    /* file that open() fails for, as without free descriptors */
  int writes_left = -1;      /* until the disk is full; -1 = never */
  size_t n_direct_bytes = 0; /* bytes read directly */

private:
  struct Slots
  {
    TpsDisk table; /* must be the first member */
    MemoryDisk *disk;
  };
  struct File
  {
    TpsDiskFile file; /* must be the first member */
    MemoryDisk *disk;
    std::shared_ptr<std::string> bytes;
    bool is_direct;
  };

  static MemoryDisk *
  of (TpsDisk *disk)
  {
    return reinterpret_cast<Slots *> (disk)->disk;
  }
  static File *
  of (TpsDiskFile *file)
  {
    return reinterpret_cast<File *> (file);
  }

  static gboolean
  fail (GError **error, int code, const std::string &what)
  {
    g_set_error (error, TPS_ERROR, code, "%s", what.c_str ());
    return FALSE;
  }

  static TpsDiskFile *
  open (TpsDisk *disk, const gchar *path, guint flags, GError **error)
  {
    MemoryDisk *self = of (disk);
    std::lock_guard<std::mutex> guard (self->lock);
    auto found = self->files.find (path);

    if (self->unreadable == path)
      return fail (error, TPS_ERROR_INTERNAL, "open: too many open files"), nullptr;
    if (found == self->files.end () && (flags & TPS_DISK_CREATE) == 0)
      return fail (error, TPS_ERROR_NOT_FOUND, std::string ("open ") + path), nullptr;
    if (found != self->files.end () && (flags & TPS_DISK_CREATE) != 0)
      return fail (error, TPS_ERROR_ALREADY_EXISTS, std::string ("open ") + path), nullptr;
    if (found == self->files.end ())
      found = self->files.emplace (path, std::make_shared<std::string> ()).first;
    File *file = new File { { disk }, self, found->second, (flags & TPS_DISK_DIRECT) != 0 };
    return &file->file;
  }

  static gint64
  get_size (TpsDiskFile *file, GError **)
  {
    std::lock_guard<std::mutex> guard (of (file)->disk->lock);

    return static_cast<gint64> (of (file)->bytes->size ());
  }

  static gboolean
  truncate (TpsDiskFile *file, gint64 n_bytes, GError **)
  {
    std::lock_guard<std::mutex> guard (of (file)->disk->lock);

    EXPECT_LE (static_cast<size_t> (n_bytes), of (file)->bytes->size ());
    of (file)->bytes->resize (static_cast<size_t> (n_bytes));
    return TRUE;
  }

  static gssize
  read (TpsDiskFile *file, gpointer data, gsize n_bytes, gint64 offset, GError **)
  {
    std::lock_guard<std::mutex> guard (of (file)->disk->lock);
    const std::string &bytes = *of (file)->bytes;
    size_t at = std::min (static_cast<size_t> (offset), bytes.size ());
    size_t n = std::min (n_bytes, bytes.size () - at);

    EXPECT_TRUE (!of (file)->is_direct
                 || (reinterpret_cast<uintptr_t> (data) | n_bytes | static_cast<gsize> (offset))
                            % TPS_DISK_BLOCK
                        == 0);
    memcpy (data, bytes.data () + at, n);
    of (file)->disk->n_direct_bytes += of (file)->is_direct ? n : 0;
    return static_cast<gssize> (n);
  }

  static gboolean
  write (TpsDiskFile *file, gconstpointer data, gsize n_bytes, gint64 offset, gboolean,
         GError **error)
  {
    std::lock_guard<std::mutex> guard (of (file)->disk->lock);
    std::string &bytes = *of (file)->bytes;

    EXPECT_TRUE (!of (file)->is_direct
                 || (reinterpret_cast<uintptr_t> (data) | n_bytes | static_cast<gsize> (offset))
                            % TPS_DISK_BLOCK
                        == 0);
    if (of (file)->disk->writes_left == 0)
      return fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "write: no space left");
    if (of (file)->disk->writes_left > 0)
      of (file)->disk->writes_left--;
    if (bytes.size () < static_cast<size_t> (offset) + n_bytes)
      bytes.resize (static_cast<size_t> (offset) + n_bytes);
    memcpy (&bytes[static_cast<size_t> (offset)], data, n_bytes);
    return TRUE;
  }

  static gboolean
  rename (TpsDisk *disk, const gchar *from, const gchar *to, GError **)
  {
    MemoryDisk *self = of (disk);
    std::lock_guard<std::mutex> guard (self->lock);

    self->files[to] = self->files.at (from);
    self->files.erase (from);
    return TRUE;
  }

  static gboolean
  link (TpsDisk *disk, const gchar *from, const gchar *to, GError **error)
  {
    MemoryDisk *self = of (disk);
    std::lock_guard<std::mutex> guard (self->lock);

    if (!self->has_links)
      return fail (error, TPS_ERROR_INTERNAL, std::string ("link ") + from);
    EXPECT_EQ (self->files.count (to), 0u);
    self->files[to] = self->files.at (from);
    return TRUE;
  }

  static gboolean
  remove (TpsDisk *disk, const gchar *path, GError **error)
  {
    MemoryDisk *self = of (disk);
    std::lock_guard<std::mutex> guard (self->lock);

    auto below = self->files.lower_bound (std::string (path) + "/");

    if (below != self->files.end () && below->first.rfind (std::string (path) + "/", 0) == 0)
      return fail (error, TPS_ERROR_ALREADY_EXISTS, std::string ("remove ") + path);
    if (self->files.erase (path) == 1 || self->folders.erase (path) == 1)
      return TRUE;
    return fail (error, TPS_ERROR_NOT_FOUND, std::string ("remove ") + path);
  }

  static gboolean
  make_folder (TpsDisk *disk, const gchar *path, GError **)
  {
    MemoryDisk *self = of (disk);
    std::lock_guard<std::mutex> guard (self->lock);

    self->folders.insert (path);
    return TRUE;
  }

  static GStrv
  list (TpsDisk *disk, const gchar *path, GError **error)
  {
    MemoryDisk *self = of (disk);
    std::lock_guard<std::mutex> guard (self->lock);
    std::set<std::string> names;
    std::string prefix = std::string (path) + "/";
    GPtrArray *found = g_ptr_array_new ();

    if (self->folders.count (path) == 0)
      {
        g_ptr_array_unref (found);
        return fail (error, TPS_ERROR_NOT_FOUND, std::string ("list ") + path), nullptr;
      }
    for (const auto &file : self->files)
      if (file.first.compare (0, prefix.size (), prefix) == 0)
        names.insert (file.first.substr (prefix.size (),
                                         file.first.find ('/', prefix.size ()) - prefix.size ()));
    for (const std::string &folder : self->folders)
      if (folder.compare (0, prefix.size (), prefix) == 0)
        names.insert (folder.substr (prefix.size ()));
    for (const std::string &name : names)
      g_ptr_array_add (found, g_strdup (name.c_str ()));
    g_ptr_array_add (found, nullptr);
    return reinterpret_cast<GStrv> (g_ptr_array_free (found, FALSE));
  }

  Slots slots;
};

} // namespace snapshot_test
