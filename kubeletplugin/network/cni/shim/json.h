/*
 * JSON (RFC 8259) as far as a chained CNI plugin needs it: a text is checked as a whole, and members of its top-level
 * object are handed out as they stand there.
 */
#ifndef ROOTPORT_JSON_H
#define ROOTPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *start;
    size_t length;
} Text;

typedef struct {
    const char *name; /* ASCII */
    Text value;       /* the last one of this name, as encoding/json of Go has it; start is NULL for none */
} Member;

/* Whether a text is one JSON object; then with those of its members that are asked for. Deeper than 256 is refused. */
bool read_members(Text text, Member *members, size_t count);

/* Whether a member's value is an object. */
bool is_object(Text value);

/* Whether a member's value is a string, and this ASCII word, however it is escaped. */
bool is_word(Text value, const char *word);

/* The value of a hexadecimal digit, or -1. */
int hex_digit(char c);

#endif
