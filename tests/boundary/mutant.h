/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* mutants.py writes this text into every file of the product that it changes.
 *
 *   TPS_MUTANT=17            planted bug 17 is active
 *   TPS_MUTANT_REACHED=FILE  byte n of FILE, of 4,096 bytes, becomes 1 when the place of bug n is
 *                            reached. The file is mapped, so it survives SIGKILL.
 *
 * No headers: some files have functions whose names are those of the C library. Thread: any.
 * Threads that initialise at the same time find the same values. */

#pragma once

extern char *tps_mutant_getenv (const char *name) __asm__("getenv");
extern int tps_mutant_atoi (const char *text) __asm__("atoi");
extern int tps_mutant_open (const char *path, int flags, ...) __asm__("open");
extern int tps_mutant_close (int file) __asm__("close");
extern void *tps_mutant_mmap (void *at, unsigned long n_bytes, int protection, int flags, int file,
                              long offset) __asm__("mmap");

static int tps_mutant_chosen = -1;
static char *tps_mutant_reached;

__attribute__ ((unused, noinline, cold)) static void
tps_mutant_init (void)
{
  const char *number = tps_mutant_getenv ("TPS_MUTANT");
  const char *path = tps_mutant_getenv ("TPS_MUTANT_REACHED");
  int file = path != (void *) 0 ? tps_mutant_open (path, 02000002) : -1; /* O_RDWR | O_CLOEXEC */

  if (file >= 0)
    {
      /* PROT_READ | PROT_WRITE, MAP_SHARED */
      void *map = tps_mutant_mmap ((void *) 0, 4096, 3, 1, file, 0);

      tps_mutant_close (file);
      if (map != (void *) -1)
        tps_mutant_reached = (char *) map;
    }
  tps_mutant_chosen = number != (void *) 0 ? tps_mutant_atoi (number) : 0;
}

/* Whether this planted bug is active. */
__attribute__ ((unused)) static int
tps_mutant (int number)
{
  if (tps_mutant_chosen < 0)
    tps_mutant_init ();
  if (tps_mutant_reached != (void *) 0)
    tps_mutant_reached[number] = 1;
  return tps_mutant_chosen == number;
}
