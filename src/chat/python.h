// Calls in Python as models write them: NAME(literal, key=literal), maybe with "x = " or print()
// around it or .call behind the name. Nothing is run: what is no literal is no call.
#ifndef PUMICE_CHAT_PYTHON_H
#define PUMICE_CHAT_PYTHON_H

#include <jansson.h>
#include <stddef.h>

typedef struct python_reader {
    const char *at, *end;
} python_reader;

typedef struct python_call {
    char *name;
    json_t *positional; // a list
    json_t *named;      // an object
} python_call;

typedef enum python_found {
    PYTHON_CALL, // *call holds one, to be released
    PYTHON_NO_CALL,
    PYTHON_END, // nothing but white space and comments
} python_found;

void python_start(python_reader *r, const char *text, size_t n);
python_found python_next(python_reader *r, python_call *call);
void python_call_free(python_call *call);

#endif
