/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/fuse_mount.h"

#ifdef TPS_HAS_FUSE

#define FUSE_USE_VERSION 31

#include <fuse.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/base/error.h"

namespace history {
namespace {

constexpr mode_t kFolderMode = S_IFDIR | 0700;
constexpr mode_t kFileMode = S_IFREG | 0600;

/* The state behind the FUSE functions below. FUSE calls them one at a time. */
struct FileSystem
{
  thriftps::SimulatedDisk *disk;
  std::set<std::string> folders { "/" };
};

FileSystem *
here ()
{
  return static_cast<FileSystem *> (fuse_get_context ()->private_data);
}

/* Returns a negative errno, as FUSE requires. Takes `error`. */
int
errno_of (GError *error)
{
  int code = error->code == TPS_ERROR_NOT_FOUND            ? ENOENT
             : error->code == TPS_ERROR_ALREADY_EXISTS     ? EEXIST
             : error->code == TPS_ERROR_RESOURCE_EXHAUSTED ? ENOSPC
                                                           : EIO;

  if (here ()->disk->is_off ())
    code = EIO;
  g_error_free (error);
  return -code;
}

TpsDiskFile *
file_of (const fuse_file_info *info)
{
  return reinterpret_cast<TpsDiskFile *> (info->fh);
}

int
open_file (const char *path, guint flags, fuse_file_info *info)
{
  TpsDisk *disk = here ()->disk->get ();
  GError *error = nullptr;
  TpsDiskFile *file = disk->open (disk, path, flags, &error);

  if (file == nullptr)
    return errno_of (error);
  info->fh = reinterpret_cast<uint64_t> (file);
  info->direct_io = 1;
  return 0;
}

/* Opens a file and calls `use` with it. */
template <typename Use>
int
with_file (const char *path, fuse_file_info *info, Use use)
{
  fuse_file_info own = {};
  int code = info == nullptr ? open_file (path, 0, &own) : 0;

  if (code != 0)
    return code;
  TpsDiskFile *file = file_of (info == nullptr ? &own : info);
  code = use (file);
  if (info == nullptr)
    file->disk->close (file);
  return code;
}

std::string
parent_of (const std::string &path)
{
  size_t slash = path.rfind ('/');

  return slash == 0 ? "/" : path.substr (0, slash);
}

/* ---- names ----------------------------------------------------------------------------------- */

int
get_attributes (const char *path, struct stat *attributes, fuse_file_info *info)
{
  *attributes = {};
  attributes->st_nlink = 1;
  attributes->st_mode = here ()->folders.count (path) > 0 ? kFolderMode : kFileMode;
  if (attributes->st_mode == kFolderMode)
    return 0;
  return with_file (path, info, [attributes] (TpsDiskFile *file) {
    attributes->st_size = file->disk->get_size (file, nullptr);
    attributes->st_blocks = attributes->st_size / 512;
    return 0;
  });
}

int
list_folder (const char *path, void *buffer, fuse_fill_dir_t fill, off_t, fuse_file_info *,
             fuse_readdir_flags)
{
  TpsDisk *disk = here ()->disk->get ();
  const std::string folder = path;
  g_auto (GStrv) names = disk->list (disk, folder == "/" ? "" : path, nullptr);
  std::set<std::string> all;

  for (gchar **name = names; *name != nullptr; name++)
    all.insert (*name);
  for (const std::string &other : here ()->folders)
    if (other != "/" && parent_of (other) == folder)
      all.insert (other.substr (other.rfind ('/') + 1));
  for (const std::string &name : all)
    fill (buffer, name.c_str (), nullptr, 0, static_cast<fuse_fill_dir_flags> (0));
  return 0;
}

int
make_folder (const char *path, mode_t)
{
  return here ()->folders.insert (path).second ? 0 : -EEXIST;
}

int
remove_folder (const char *path)
{
  TpsDisk *disk = here ()->disk->get ();
  g_auto (GStrv) names = disk->list (disk, path, nullptr);

  if (names[0] != nullptr)
    return -ENOTEMPTY;
  return here ()->folders.erase (path) > 0 ? 0 : -ENOENT;
}

int
remove_file (const char *path)
{
  TpsDisk *disk = here ()->disk->get ();
  GError *error = nullptr;

  return disk->remove (disk, path, &error) ? 0 : errno_of (error);
}

int
rename_file (const char *from, const char *to, unsigned)
{
  TpsDisk *disk = here ()->disk->get ();
  GError *error = nullptr;

  return disk->rename (disk, from, to, &error) ? 0 : errno_of (error);
}

int
link_file (const char *from, const char *to)
{
  TpsDisk *disk = here ()->disk->get ();
  GError *error = nullptr;

  return disk->link (disk, from, to, &error) ? 0 : errno_of (error);
}

int
sync_folder (const char *path, int, fuse_file_info *)
{
  TpsDisk *disk = here ()->disk->get ();
  GError *error = nullptr;

  return disk->sync_folder (disk, path, &error) ? 0 : errno_of (error);
}

/* ---- contents -------------------------------------------------------------------------------- */

int
make_file (const char *path, mode_t, fuse_file_info *info)
{
  return open_file (path, TPS_DISK_CREATE, info);
}

int
open_existing (const char *path, fuse_file_info *info)
{
  return open_file (path, 0, info);
}

int
close_file (const char *, fuse_file_info *info)
{
  TpsDiskFile *file = file_of (info);

  file->disk->close (file);
  return 0;
}

int
read_file (const char *, char *to, size_t n_bytes, off_t offset, fuse_file_info *info)
{
  TpsDiskFile *file = file_of (info);
  GError *error = nullptr;
  gssize n = file->disk->read (file, to, n_bytes, offset, &error);

  return n >= 0 ? static_cast<int> (n) : errno_of (error);
}

int
write_file (const char *, const char *from, size_t n_bytes, off_t offset, fuse_file_info *info)
{
  TpsDiskFile *file = file_of (info);
  GError *error = nullptr;

  return file->disk->write (file, from, n_bytes, offset, FALSE, &error) ? static_cast<int> (n_bytes)
                                                                        : errno_of (error);
}

int
truncate_file (const char *path, off_t n_bytes, fuse_file_info *info)
{
  return with_file (path, info, [n_bytes] (TpsDiskFile *file) {
    GError *error = nullptr;

    return file->disk->truncate (file, n_bytes, &error) ? 0 : errno_of (error);
  });
}

int
allocate (const char *, int mode, off_t offset, off_t length, fuse_file_info *info)
{
  TpsDiskFile *file = file_of (info);
  GError *error = nullptr;

  if (mode != 0)
    return -EOPNOTSUPP;
  return file->disk->preallocate (file, offset + length, &error) ? 0 : errno_of (error);
}

int
sync_file (const char *, int, fuse_file_info *info)
{
  TpsDiskFile *file = file_of (info);
  GError *error = nullptr;

  return file->disk->sync (file, &error) ? 0 : errno_of (error);
}

/* The kernel must not cache anything, because it does not know that a power cut changes files. */
void *
init (fuse_conn_info *, fuse_config *config)
{
  config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
  return fuse_get_context ()->private_data;
}

fuse_operations
get_operations ()
{
  fuse_operations operations = {};

  operations.getattr = get_attributes;
  operations.readdir = list_folder;
  operations.mkdir = make_folder;
  operations.rmdir = remove_folder;
  operations.unlink = remove_file;
  operations.rename = rename_file;
  operations.link = link_file;
  operations.fsyncdir = sync_folder;
  operations.create = make_file;
  operations.open = open_existing;
  operations.release = close_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.truncate = truncate_file;
  operations.fallocate = allocate;
  operations.fsync = sync_file;
  operations.init = init;
  return operations;
}

class Mounted : public FuseMount
{
public:
  explicit Mounted (thriftps::SimulatedDisk *disk) : files_ { disk }
  {
  }

  ~Mounted () override
  {
    if (fuse_ == nullptr)
      return;
    fuse_exit (fuse_);
    fuse_unmount (fuse_);
    if (thread_.joinable ())
      thread_.join ();
    fuse_destroy (fuse_);
  }

  bool
  mount (const std::string &path)
  {
    static const fuse_operations operations = get_operations ();
    char *arguments[] = { const_cast<char *> ("power_cut") };
    fuse_args args = FUSE_ARGS_INIT (1, arguments);

    fuse_ = fuse_new (&args, &operations, sizeof operations, &files_);
    fuse_opt_free_args (&args);
    if (fuse_ == nullptr || fuse_mount (fuse_, path.c_str ()) != 0)
      return false;
    thread_ = std::thread ([this] { fuse_loop (fuse_); });
    return true;
  }

private:
  FileSystem files_;
  fuse *fuse_ = nullptr;
  std::thread thread_;
};

} // namespace

std::unique_ptr<FuseMount>
FuseMount::create (thriftps::SimulatedDisk *disk, const std::string &path, std::string *why)
{
  auto mounted = std::make_unique<Mounted> (disk);

  if (mounted->mount (path))
    return mounted;
  *why = std::string ("FUSE does not mount here: ") + strerror (errno);
  return nullptr;
}

} // namespace history

#else

namespace history {

std::unique_ptr<FuseMount>
FuseMount::create (thriftps::SimulatedDisk *, const std::string &, std::string *why)
{
  *why = "this test was built without libfuse3-dev";
  return nullptr;
}

} // namespace history

#endif
