/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A main() for fuzz targets that are built without libFuzzer. It runs the target once on each file
 * that the command line names, and on each file in each folder that it names. Every compiler and
 * sanitizer can thus replay the corpus. */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static unsigned n_replayed;

static void
fail (const char *path)
{
  fprintf (stderr, "%s: %s\n", path, strerror (errno));
  exit (1);
}

static void
replay_file (const char *path, size_t size)
{
  FILE *file = fopen (path, "rb");
  /* The block has exactly the size of the input, so that the address sanitizer detects any access
   * beyond it. */
  uint8_t *data = malloc (size ? size : 1);

  if (!file || !data || fread (data, 1, size, file) != size)
    fail (path);
  fclose (file);
  LLVMFuzzerTestOneInput (data, size);
  free (data);
  n_replayed++;
}

static void
replay (const char *path)
{
  struct stat status;
  struct dirent *entry;
  DIR *folder;

  if (stat (path, &status) != 0)
    fail (path);
  if (!S_ISDIR (status.st_mode))
    {
      replay_file (path, (size_t) status.st_size);
      return;
    }
  folder = opendir (path);
  if (!folder)
    fail (path);
  while ((entry = readdir (folder)))
    {
      char inner[4096];

      if (entry->d_name[0] == '.')
        continue;
      snprintf (inner, sizeof inner, "%s/%s", path, entry->d_name);
      replay (inner);
    }
  closedir (folder);
}

int
main (int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    replay (argv[i]);
  printf ("replayed %u inputs\n", n_replayed);
  return n_replayed ? 0 : 1;
}
