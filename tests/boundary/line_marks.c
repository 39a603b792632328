/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into the processes of a test, marks the lines of the product that they execute
 * (coverage.py). The programs are those of every day: no line is compiled in another way.
 *
 * A breakpoint stands at the beginning of the code of each line that no process has marked yet. Its
 * handler marks the line and takes the breakpoint away. The marks are in a mapped file that all
 * processes share, so that a process which is killed has marked its lines, too.
 *
 *   LINE_MARKS=FOLDER   has `marks`, one byte for each line, and for each program or library with
 *                       lines a file `<device>-<inode>`: an array of struct site by address
 *
 * Threads: a breakpoint is taken away while other threads may execute it. The write of one byte is
 * atomic, and a thread that meets a breakpoint which is already gone executes the place again. */

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define MAX_OBJECTS 64
#define BREAKPOINT 0xcc

struct site
{
  uint64_t address; /* from the beginning of the object */
  uint32_t line;    /* place of its mark */
  uint32_t byte;    /* of the code, which the breakpoint replaces */
};

struct object
{
  uint64_t base;
  const struct site *sites;
  size_t n_sites;
};

static struct object objects[MAX_OBJECTS];
static int n_objects;
static uint8_t *marks;
static unsigned long long n_added; /* objects that the linker had loaded at the last search */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *
map_file (const char *name, int protection, int flags, size_t *size)
{
  char path[4096];
  struct stat status;
  void *map;
  int file;

  snprintf (path, sizeof path, "%s/%s", getenv ("LINE_MARKS"), name);
  file = open (path, (protection & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (file < 0)
    return NULL;
  map = fstat (file, &status) == 0 && status.st_size > 0
            ? mmap (NULL, (size_t) status.st_size, protection, flags, file, 0)
            : MAP_FAILED;
  close (file);
  *size = (size_t) status.st_size;
  return map == MAP_FAILED ? NULL : map;
}

/* The first site at that address, or NULL. */
static const struct site *
find_site (const struct object *object, uint64_t address)
{
  size_t low = 0, high = object->n_sites;

  while (low < high)
    {
      size_t middle = (low + high) / 2;

      if (object->sites[middle].address < address)
        low = middle + 1;
      else
        high = middle;
    }
  return low < object->n_sites && object->sites[low].address == address ? &object->sites[low]
                                                                        : NULL;
}

static void
mark (int number, siginfo_t *info, void *data)
{
  greg_t *pc = &((ucontext_t *) data)->uc_mcontext.gregs[REG_RIP];
  uint64_t at = (uint64_t) *pc - 1;

  (void) info;
  for (int i = 0; i < n_objects; i++)
    {
      const struct site *site = find_site (&objects[i], at - objects[i].base);

      if (site == NULL)
        continue;
      *(volatile uint8_t *) at = (uint8_t) site->byte;
      *pc = (greg_t) at;
      for (; site < objects[i].sites + objects[i].n_sites && site->address == at - objects[i].base;
           site++)
        marks[site->line] = 1;
      return;
    }
  signal (number, SIG_DFL);
}

/* Sets the breakpoints of a program or library. */
static int
add_object (struct dl_phdr_info *info, size_t size, void *data)
{
  const char *path = *info->dlpi_name != '\0' ? info->dlpi_name : "/proc/self/exe";
  struct object *object = &objects[n_objects];
  struct stat status;
  char name[64];
  void *sites;
  size_t n_bytes;

  (void) size;
  (void) data;
  for (int i = 0; i < n_objects; i++)
    if (objects[i].base == info->dlpi_addr)
      return 0;
  if (n_objects == MAX_OBJECTS || stat (path, &status) != 0)
    return 0;
  snprintf (name, sizeof name, "%lu-%lu", (unsigned long) status.st_dev,
            (unsigned long) status.st_ino);
  sites = map_file (name, PROT_READ, MAP_PRIVATE, &n_bytes);
  if (sites == NULL)
    return 0;
  *object = (struct object) { info->dlpi_addr, sites, n_bytes / sizeof (struct site) };
  n_objects++;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
      {
        uintptr_t begin = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) & ~(uintptr_t) 4095;
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;

        if (mprotect ((void *) begin, end - begin, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
          {
            n_objects--;
            return 0;
          }
      }
  for (size_t i = 0; i < object->n_sites; i++)
    if (!marks[object->sites[i].line])
      *(volatile uint8_t *) (object->base + object->sites[i].address) = BREAKPOINT;
  return 0;
}

static int
count_added (struct dl_phdr_info *info, size_t size, void *data)
{
  (void) size;
  *(unsigned long long *) data = info->dlpi_adds;
  return 1;
}

static void
add_new_objects (void)
{
  unsigned long long n = 0;

  if (marks == NULL)
    return;
  dl_iterate_phdr (count_added, &n);
  pthread_mutex_lock (&lock);
  if (n != n_added)
    dl_iterate_phdr (add_object, NULL);
  n_added = n;
  pthread_mutex_unlock (&lock);
}

__attribute__ ((constructor)) static void
begin (void)
{
  struct sigaction action = { .sa_sigaction = mark,
                              .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER };
  size_t n_bytes;

  if (getenv ("LINE_MARKS") == NULL)
    return;
  marks = map_file ("marks", PROT_READ | PROT_WRITE, MAP_SHARED, &n_bytes);
  if (marks == NULL || sigaction (SIGTRAP, &action, NULL) != 0)
    return;
  add_new_objects ();
}

/* A program that has opened a library asks for its functions before it calls them. The call of the
 * C library's function must be the last one, because that function looks at its caller. */
void *
dlsym (void *handle, const char *name)
{
  static void *(*next) (void *handle, const char *name);

  if (next == NULL)
    next = (void *(*) (void *, const char *) ) dlvsym (RTLD_NEXT, "dlsym", "GLIBC_2.34");
  add_new_objects ();
  return next (handle, name);
}

/* A thread that blocks the signal of a breakpoint would end its process. */
static const sigset_t *
without_trap (const sigset_t *set, sigset_t *copy)
{
  if (set == NULL)
    return NULL;
  *copy = *set;
  sigdelset (copy, SIGTRAP);
  return copy;
}

int
pthread_sigmask (int how, const sigset_t *set, sigset_t *old)
{
  static int (*next) (int how, const sigset_t *set, sigset_t *old);
  sigset_t copy;

  if (next == NULL)
    next = (int (*) (int, const sigset_t *, sigset_t *)) dlvsym (RTLD_NEXT, "pthread_sigmask",
                                                                 "GLIBC_2.32");
  return next (how, without_trap (set, &copy), old);
}

int
sigprocmask (int how, const sigset_t *set, sigset_t *old)
{
  return pthread_sigmask (how, set, old);
}
