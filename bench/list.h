

/* What --list and --version print. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* All names that the registries know, a line each; or the version alone. */
void tps_bench_print_list (gboolean version_only);

G_END_DECLS
