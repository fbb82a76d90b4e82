// Pictures: a canvas of points, letters, heat maps; as PNG, or in a terminal with half blocks.
#ifndef PUMICE_CLI_PICTURE_H
#define PUMICE_CLI_PICTURE_H

#include "cli/cli.h"

typedef struct colour {
    unsigned char r, g, b;
} colour;

typedef struct picture {
    int width, height;
    colour *points; // [height][width]
} picture;

static const colour picture_black = {0, 0, 0}, picture_grey = {150, 150, 150};

// White. PM_ERROR_USAGE: larger than anybody looks at (the message says what to choose).
pm_status picture_open(picture *p, int width, int height);
void picture_free(picture *p); // accepts a zeroed one
// What lies outside of the picture is left out.
void picture_fill(picture *p, int x, int y, int width, int height, colour c);
void picture_frame(picture *p, int x, int y, int width, int height, colour c);
void picture_line(picture *p, double x0, double y0, double x1, double y1, colour c);
// The text's upper left corner, or with `upwards` its lower left one, turned to the left.
void picture_text(picture *p, int x, int y, const char *text, colour c, bool upwards);
int picture_text_width(const char *text);
enum { PICTURE_TEXT_HEIGHT = 7, PICTURE_LETTER = 6 };
// As PNG; `title` is kept in the file. The file appears when it is complete.
pm_status picture_write(const picture *p, const char *path, const char *title);

// ---- heat maps --------------------------------------------------------------------------------

// From blue over white to red around zero (-1 to 1), or from white to dark blue (0 to 1): both are
// told apart with any kind of colour blindness.
colour heat_colour(double value, bool around_zero);

typedef struct heat_map {
    size_t rows, cols;
    const double *values; // [rows][cols]; NAN: left white
    double most;          // the value of the darkest colour; > 0
    bool around_zero;
    const char *title;
    const char *const *row_labels, *const *col_labels; // NULL: none
    int cell_width, cell_height;                       // points, in a picture
    const char *numbers; // how values are written into cells ("%.2f"); NULL: not
} heat_map;

void heat_map_size(const heat_map *m, int *width, int *height);
void heat_map_draw(picture *p, int x, int y, const heat_map *m);
// In a terminal: one column a value, two rows a line, labels on the left.
void heat_map_show(const heat_map *m);
// Does stdout show 24-bit colours, and are they wanted?
bool picture_terminal(void);

#endif
