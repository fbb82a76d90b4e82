// Results of bench side by side: what compare's table, page and picture share.
#ifndef PUMICE_CLI_COMPARE_H
#define PUMICE_CLI_COMPARE_H

#include "cli/picture.h"

enum { COMPARE_MAX_FILES = 16, COMPARE_MAX_ROWS = 256 };

// One configuration, as one file measured it.
typedef struct compare_cell {
    bool there; // false: the file lacks it, or it failed
    double median, sd, gbps;
    size_t samples;
    double ratio; // to the first file that has it
    const char
        *noise; // "faster", "slower", "none" (within the spread), "one sample", "" (the base)
} compare_cell;

typedef struct compare_row {
    const char *kind;
    int n, depth;
    compare_cell cells[COMPARE_MAX_FILES];
} compare_row;

typedef struct comparison {
    size_t n_files, n_rows;
    const char *names[COMPARE_MAX_FILES]; // the files'
    json_t *files[COMPARE_MAX_FILES];
    compare_row rows[COMPARE_MAX_ROWS];
    json_t *differ; // {what: [values]}: why they are unlike, empty where they are not
} comparison;

// Blue, orange, green, vermilion, purple, sky blue, yellow, black: told apart with any kind of
// colour blindness (Okabe and Ito 2008).
colour compare_colour(size_t file);
// What a file is called: its device's name.
const char *compare_device(const comparison *c, size_t file);

// Appends bars and, where bench ran with --per-op, a roofline: the same drawing as the picture's.
void compare_svg(const comparison *c, buf *out);
void compare_escaped(buf *out, const char *text); // as HTML has it
pm_status compare_html(const comparison *c, const char *path);
pm_status compare_png(const comparison *c, const char *path);

#endif
