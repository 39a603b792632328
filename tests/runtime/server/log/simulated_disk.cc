/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/log/simulated_disk.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"

namespace thriftps {

constexpr size_t kSector = TPS_DISK_SECTOR;

struct SimulatedDisk::Disk
{
  TpsDisk base;
  SimulatedDisk *self;
};

struct SimulatedDisk::File
{
  TpsDiskFile base;
  std::shared_ptr<Inode> inode;
  std::string path;
  guint flags;
  bool is_lock;
};

SimulatedDisk *
SimulatedDisk::of (TpsDisk *disk)
{
  return reinterpret_cast<Disk *> (disk)->self;
}

SimulatedDisk::SimulatedDisk (uint32_t seed)
    : disk_ (new Disk { make_functions (), this }), random_ (seed)
{
}

SimulatedDisk::~SimulatedDisk () = default;

TpsDisk *
SimulatedDisk::get ()
{
  return &disk_->base;
}

/* ---- faults ---------------------------------------------------------------------------------- */

void
SimulatedDisk::cut_after (uint64_t n_operations)
{
  auto held = guard ();

  cut_at_ = n_operations_ + n_operations;
}

void
SimulatedDisk::cut ()
{
  auto held = guard ();

  is_off_ = true;
}

void
SimulatedDisk::fail_sync (uint64_t n)
{
  auto held = guard ();

  fail_sync_at_ = n_syncs_ + n;
}

void
SimulatedDisk::fail_write (uint64_t n)
{
  auto held = guard ();

  fail_write_at_ = n_writes_ + n;
}

void
SimulatedDisk::set_unreadable (const std::string &path)
{
  auto held = guard ();

  unreadable_ = path;
}

void
SimulatedDisk::set_capacity (uint64_t n_bytes)
{
  auto held = guard ();

  capacity_ = n_bytes;
}

bool
SimulatedDisk::is_off () const
{
  auto held = guard ();

  return is_off_;
}

uint64_t
SimulatedDisk::get_operations () const
{
  auto held = guard ();

  return n_operations_;
}

uint64_t
SimulatedDisk::get_writes () const
{
  auto held = guard ();

  return n_writes_;
}

uint64_t
SimulatedDisk::get_syncs () const
{
  auto held = guard ();

  return n_syncs_;
}

uint64_t
SimulatedDisk::get_direct_bytes () const
{
  auto held = guard ();

  return n_direct_bytes_;
}

bool
SimulatedDisk::chance (double probability)
{
  return std::uniform_real_distribution<double> (0, 1) (random_) < probability;
}

static bool
fail (GError **error, TpsErrorCode code, const char *operation, const std::string &path,
      const char *why)
{
  g_set_error (error, TPS_ERROR, code, "%s: %s failed: %s", path.c_str (), operation, why);
  return false;
}

/* The caller must call this before every change. Returns FALSE if the power is off, possibly since
 * this call. */
bool
SimulatedDisk::step (GError **error, const char *operation, const std::string &path)
{
  if (!is_off_ && ++n_operations_ >= cut_at_)
    is_off_ = true;
  return !is_off_ || fail (error, TPS_ERROR_INTERNAL, operation, path, "the power is off");
}

void
SimulatedDisk::write_sector (Inode *inode, size_t sector)
{
  size_t begin = sector * kSector;

  if (begin >= inode->data.size ())
    return;
  if (inode->durable.size () < begin + kSector)
    inode->durable.resize (std::min (begin + kSector, inode->data.size ()), '\0');
  std::memcpy (&inode->durable[begin], &inode->data[begin],
               std::min (kSector, inode->data.size () - begin));
}

/* Lets a random part of the unsynced data reach the medium. */
void
SimulatedDisk::keep_some (Inode *inode)
{
  size_t durable_size = inode->durable.size ();
  double probability = std::uniform_int_distribution<int> (0, 4) (random_) / 4.0;

  for (size_t sector : inode->dirty)
    if (chance (probability))
      write_sector (inode, sector);
  /* The size is separate metadata, so it may survive without the data, or be lost without it. */
  inode->durable.resize (chance (0.5) ? inode->data.size () : durable_size, '\0');
}

void
SimulatedDisk::restart ()
{
  auto held = guard ();

  for (const NameChange &change : changes_)
    if (chance (0.5))
      apply (&durable_names_, change);
  changes_.clear ();
  std::set<Inode *> inodes;
  for (auto &[path, inode] : durable_names_)
    inodes.insert (inode.get ());
  for (Inode *inode : inodes)
    {
      keep_some (inode);
      inode->dirty.clear ();
      inode->data = inode->durable;
    }
  names_ = durable_names_;
  locks_.clear ();
  is_off_ = false;
  cut_at_ = fail_sync_at_ = fail_write_at_ = UINT64_MAX;
}

std::string
SimulatedDisk::flip_bit (const std::string &suffix)
{
  std::vector<std::string> paths;

  for (auto &[path, inode] : names_)
    if (path.size () >= suffix.size () && !inode->data.empty ()
        && path.compare (path.size () - suffix.size (), suffix.size (), suffix) == 0)
      paths.push_back (path);
  if (paths.empty ())
    return "";
  const std::string &path = paths[random_ () % paths.size ()];
  Inode *inode = names_[path].get ();
  /* Prefers bytes that are in use. */
  size_t n_used = inode->data.find_last_not_of ('\0') + 1;
  size_t n_range = chance (0.9) && n_used > 0 ? n_used : inode->data.size ();
  size_t at = random_ () % n_range;

  inode->data[at] = static_cast<char> (inode->data[at] ^ (1 << (random_ () % 8)));
  inode->durable = inode->data;
  return path + " at " + std::to_string (at);
}

std::string &
SimulatedDisk::get_file (const std::string &path)
{
  return names_.at (path)->data;
}

void
SimulatedDisk::put_file (const std::string &path, const std::string &bytes)
{
  auto inode = std::make_shared<Inode> ();

  inode->data = inode->durable = bytes;
  names_[path] = durable_names_[path] = inode;
}

std::vector<std::string>
SimulatedDisk::get_paths () const
{
  std::vector<std::string> paths;

  for (auto &[path, inode] : names_)
    paths.push_back (path);
  return paths;
}

bool
SimulatedDisk::has_file (const std::string &path) const
{
  return names_.count (path) > 0;
}

void
SimulatedDisk::remove_file (const std::string &path)
{
  names_.erase (path);
  durable_names_.erase (path);
}

/* ---- names ----------------------------------------------------------------------------------- */

void
SimulatedDisk::apply (Names *names, const NameChange &change)
{
  for (auto &[path, inode] : change.names)
    if (inode != nullptr)
      (*names)[path] = inode;
    else
      names->erase (path);
}

bool
SimulatedDisk::has_files_in (const std::string &folder) const
{
  auto next = names_.lower_bound (folder + "/");

  return next != names_.end () && next->first.compare (0, folder.size () + 1, folder + "/") == 0;
}

void
SimulatedDisk::change (NameChange change)
{
  apply (&names_, change);
  changes_.push_back (std::move (change));
}

uint64_t
SimulatedDisk::get_used () const
{
  uint64_t n_bytes = 0;

  for (auto &[path, inode] : names_)
    n_bytes += inode->data.size ();
  return n_bytes;
}

/* ---- data ------------------------------------------------------------------------------------ */

bool
SimulatedDisk::sync_inode (Inode *inode, const std::string &path, GError **error)
{
  if (!step (error, "fdatasync", path))
    return false;
  if (++n_syncs_ == fail_sync_at_)
    {
      keep_some (inode);
      inode->dirty.clear ();
      return fail (error, TPS_ERROR_INTERNAL, "fdatasync", path, "Input/output error");
    }
  for (size_t sector : inode->dirty)
    write_sector (inode, sector);
  inode->dirty.clear ();
  inode->durable.resize (inode->data.size (), '\0');
  return true;
}

TpsDisk
SimulatedDisk::make_functions ()
{
  TpsDisk disk {};

  disk.open = [] (TpsDisk *base, const gchar *path, guint flags, GError **error) -> TpsDiskFile * {
    auto guard = of (base)->guard ();
    SimulatedDisk *self = of (base);
    auto found = self->names_.find (path);

    if (self->unreadable_ == path)
      {
        fail (error, TPS_ERROR_INTERNAL, "open", path, "Too many open files");
        return nullptr;
      }
    if ((flags & TPS_DISK_CREATE) != 0)
      {
        if (!self->step (error, "open", path))
          return nullptr;
        if (found != self->names_.end ())
          {
            fail (error, TPS_ERROR_ALREADY_EXISTS, "open", path, "File exists");
            return nullptr;
          }
        auto inode = std::make_shared<Inode> ();
        self->change ({ { { path, inode } } });
        found = self->names_.find (path);
      }
    if (self->is_off_ || found == self->names_.end ())
      {
        fail (error, TPS_ERROR_NOT_FOUND, "open", path, "No such file or directory");
        return nullptr;
      }
    return &(new File { { base }, found->second, path, flags, false })->base;
  };
  disk.close = [] (TpsDiskFile *base) {
    auto guard = of (base->disk)->guard ();
    auto *file = reinterpret_cast<File *> (base);

    if (file->is_lock)
      of (base->disk)->locks_.erase (file->path);
    delete file;
  };
  disk.get_size = [] (TpsDiskFile *base, GError **) -> gint64 {
    auto guard = of (base->disk)->guard ();
    return static_cast<gint64> (reinterpret_cast<File *> (base)->inode->data.size ());
  };
  disk.preallocate = [] (TpsDiskFile *base, gint64 n_bytes, GError **error) -> gboolean {
    if (std::function<void ()> during = of (base->disk)->during_preallocate_)
      during ();
    auto guard = of (base->disk)->guard ();
    auto *file = reinterpret_cast<File *> (base);
    SimulatedDisk *self = of (base->disk);
    std::string &data = file->inode->data;

    if (!self->step (error, "reserving room", file->path))
      return FALSE;
    if (data.size () >= static_cast<size_t> (n_bytes))
      return TRUE;
    if (self->get_used () + static_cast<size_t> (n_bytes) - data.size () > self->capacity_)
      return fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "reserving room", file->path,
                   "No space left on device");
    data.resize (static_cast<size_t> (n_bytes), '\0');
    return TRUE;
  };
  disk.truncate = [] (TpsDiskFile *base, gint64 n_bytes, GError **error) -> gboolean {
    auto guard = of (base->disk)->guard ();
    auto *file = reinterpret_cast<File *> (base);

    if (!of (base->disk)->step (error, "truncate", file->path))
      return FALSE;
    file->inode->data.resize (static_cast<size_t> (n_bytes), '\0');
    return TRUE;
  };
  disk.read = [] (TpsDiskFile *base, gpointer data, gsize n_bytes, gint64 offset,
                  GError **error) -> gssize {
    auto guard = of (base->disk)->guard ();
    auto *file = reinterpret_cast<File *> (base);
    const std::string &from = file->inode->data;

    if ((file->flags & TPS_DISK_DIRECT) != 0)
      g_assert (reinterpret_cast<uintptr_t> (data) % TPS_DISK_BLOCK == 0
                && n_bytes % TPS_DISK_BLOCK == 0 && offset % TPS_DISK_BLOCK == 0);
    if (of (base->disk)->is_off_)
      {
        fail (error, TPS_ERROR_INTERNAL, "read", file->path, "the power is off");
        return -1;
      }
    if (static_cast<size_t> (offset) >= from.size ())
      return 0;
    n_bytes = std::min<size_t> (n_bytes, from.size () - static_cast<size_t> (offset));
    std::memcpy (data, from.data () + offset, n_bytes);
    of (base->disk)->n_direct_bytes_ += (file->flags & TPS_DISK_DIRECT) != 0 ? n_bytes : 0;
    return static_cast<gssize> (n_bytes);
  };
  disk.skip_zeros = [] (TpsDiskFile *base, gint64 offset) -> gint64 {
    auto guard = of (base->disk)->guard ();
    const std::string &data = reinterpret_cast<File *> (base)->inode->data;
    size_t found = data.find_first_not_of ('\0', static_cast<size_t> (offset));

    return static_cast<gint64> (found != std::string::npos ? found : data.size ());
  };
  disk.write = [] (TpsDiskFile *base, gconstpointer data, gsize n_bytes, gint64 offset,
                   gboolean is_sync, GError **error) -> gboolean {
    auto guard = of (base->disk)->guard ();
    auto *file = reinterpret_cast<File *> (base);
    SimulatedDisk *self = of (base->disk);
    Inode *inode = file->inode.get ();
    size_t begin = static_cast<size_t> (offset);
    bool is_on;

    if ((file->flags & TPS_DISK_DIRECT) != 0)
      g_assert (reinterpret_cast<uintptr_t> (data) % TPS_DISK_BLOCK == 0
                && n_bytes % TPS_DISK_BLOCK == 0 && offset % TPS_DISK_BLOCK == 0);
    if (self->is_off_)
      return self->step (error, "write", file->path);
    /* The write that the power cut interrupts has reached the cache, so a part of it may
     * survive. */
    is_on = self->step (error, "write", file->path);
    if (inode->data.size () < begin + n_bytes)
      inode->data.resize (begin + n_bytes, '\0');
    std::memcpy (&inode->data[begin], data, n_bytes);
    for (size_t sector = begin / kSector; sector * kSector < begin + n_bytes; sector++)
      inode->dirty.insert (sector);
    if (!is_on)
      return FALSE;
    if (++self->n_writes_ == self->fail_write_at_)
      return fail (error, TPS_ERROR_INTERNAL, "write", file->path, "Input/output error");
    return !is_sync || self->sync_inode (inode, file->path, error);
  };
  disk.sync = [] (TpsDiskFile *base, GError **error) -> gboolean {
    auto guard = of (base->disk)->guard ();
    auto *file = reinterpret_cast<File *> (base);

    return of (base->disk)->sync_inode (file->inode.get (), file->path, error);
  };
  disk.rename = [] (TpsDisk *base, const gchar *from, const gchar *to, GError **error) -> gboolean {
    auto guard = of (base)->guard ();
    SimulatedDisk *self = of (base);

    if (!self->step (error, "rename", from))
      return FALSE;
    if (self->names_.count (from) == 0)
      return fail (error, TPS_ERROR_NOT_FOUND, "rename", from, "No such file or directory");
    self->change ({ { { to, self->names_.at (from) }, { from, nullptr } } });
    return TRUE;
  };
  disk.link = [] (TpsDisk *base, const gchar *from, const gchar *to, GError **error) -> gboolean {
    auto guard = of (base)->guard ();
    SimulatedDisk *self = of (base);

    if (!self->step (error, "link", from))
      return FALSE;
    if (self->names_.count (from) == 0 || self->names_.count (to) > 0)
      return fail (error, TPS_ERROR_NOT_FOUND, "link", from, "No such file, or File exists");
    self->change ({ { { to, self->names_.at (from) } } });
    return TRUE;
  };
  disk.remove = [] (TpsDisk *base, const gchar *path, GError **error) -> gboolean {
    auto guard = of (base)->guard ();
    SimulatedDisk *self = of (base);

    if (!self->step (error, "remove", path))
      return FALSE;
    if (self->names_.count (path) == 0)
      return !self->has_files_in (path)
             || fail (error, TPS_ERROR_ALREADY_EXISTS, "remove", path, "Directory not empty");
    self->change ({ { { path, nullptr } } });
    return TRUE;
  };
  disk.make_folder = [] (TpsDisk *, const gchar *, GError **) -> gboolean { return TRUE; };
  disk.sync_folder = [] (TpsDisk *base, const gchar *path, GError **error) -> gboolean {
    auto guard = of (base)->guard ();
    SimulatedDisk *self = of (base);

    if (!self->step (error, "fsync", path))
      return FALSE;
    for (const NameChange &change : self->changes_)
      apply (&self->durable_names_, change);
    self->changes_.clear ();
    return TRUE;
  };
  disk.list = [] (TpsDisk *base, const gchar *path, GError **error) -> GStrv {
    auto guard = of (base)->guard ();
    SimulatedDisk *self = of (base);
    GPtrArray *names = g_ptr_array_new ();
    std::string prefix = std::string (path) + "/";
    std::set<std::string> found;

    for (auto &[name, inode] : self->names_)
      if (name.compare (0, prefix.size (), prefix) == 0)
        found.insert (
            name.substr (prefix.size (), name.find ('/', prefix.size ()) - prefix.size ()));
    for (const std::string &name : found)
      g_ptr_array_add (names, g_strdup (name.c_str ()));
    g_ptr_array_add (names, nullptr);
    return reinterpret_cast<GStrv> (g_ptr_array_free (names, FALSE));
  };
  disk.lock = [] (TpsDisk *base, const gchar *path, GError **error) -> TpsDiskFile * {
    auto guard = of (base)->guard ();
    SimulatedDisk *self = of (base);

    if (!self->locks_.insert (path).second)
      {
        fail (error, TPS_ERROR_UNAVAILABLE, "lock", path, "another process has it");
        return nullptr;
      }
    return &(new File { { base }, std::make_shared<Inode> (), path, 0, true })->base;
  };
  return disk;
}

} // namespace thriftps
