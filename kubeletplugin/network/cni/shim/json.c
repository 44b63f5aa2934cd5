#include "json.h"

#include <string.h>

enum { DEPTH_LIMIT = 256 };

typedef struct {
    const char *at, *end;
} Cursor;

static bool read_value(Cursor *c, int depth);

static void skip_space(Cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool take(Cursor *c, char wanted)
{
    if (c->at >= c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One character of a string, behind its opening quote: its code unit or byte; -1 for none. */
static int read_character(Cursor *c)
{
    static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    if (c->at >= c->end || (unsigned char)*c->at < 0x20)
        return -1;
    if (*c->at != '\\')
        return (unsigned char)*c->at++;
    c->at++;
    if (c->at >= c->end)
        return -1;
    char kind = *c->at++;
    if (kind == 'u') {
        int unit = 0;
        for (int i = 0; i < 4; i++) {
            int digit = c->at < c->end ? hex_digit(*c->at++) : -1;
            if (digit < 0)
                return -1;
            unit = unit * 16 + digit;
        }
        return unit;
    }
    for (const char *known = escapes; *known; known += 2)
        if (*known == kind)
            return known[1];
    return -1;
}

static bool read_string(Cursor *c)
{
    if (!take(c, '"'))
        return false;
    while (!take(c, '"'))
        if (read_character(c) < 0)
            return false;
    return true;
}

bool is_word(Text value, const char *word)
{
    if (value.start == NULL || value.start[0] != '"')
        return false;
    Cursor c = {value.start + 1, value.start + value.length - 1};
    while (c.at < c.end)
        if (*word == '\0' || read_character(&c) != (unsigned char)*word++)
            return false;
    return *word == '\0';
}

static bool read_digits(Cursor *c)
{
    const char *first = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at > first;
}

static bool read_number(Cursor *c)
{
    take(c, '-');
    if (!take(c, '0') && !read_digits(c))
        return false;
    if (take(c, '.') && !read_digits(c))
        return false;
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '+'))
            take(c, '-');
        return read_digits(c);
    }
    return true;
}

static bool read_literal(Cursor *c, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

static bool read_object(Cursor *c, int depth, Member *members, size_t count)
{
    if (!take(c, '{'))
        return false;
    skip_space(c);
    if (take(c, '}'))
        return true;
    do {
        skip_space(c);
        Text name = {c->at, 0};
        if (!read_string(c))
            return false;
        name.length = (size_t)(c->at - name.start);
        skip_space(c);
        if (!take(c, ':'))
            return false;
        skip_space(c);
        const char *start = c->at;
        if (!read_value(c, depth))
            return false;
        for (size_t i = 0; i < count; i++)
            if (is_word(name, members[i].name))
                members[i].value = (Text){start, (size_t)(c->at - start)};
        skip_space(c);
    } while (take(c, ','));
    return take(c, '}');
}

static bool read_array(Cursor *c, int depth)
{
    if (!take(c, '['))
        return false;
    skip_space(c);
    if (take(c, ']'))
        return true;
    do {
        skip_space(c);
        if (!read_value(c, depth))
            return false;
        skip_space(c);
    } while (take(c, ','));
    return take(c, ']');
}

static bool read_value(Cursor *c, int depth)
{
    if (depth == 0 || c->at >= c->end)
        return false;
    switch (*c->at) {
    case '{':
        return read_object(c, depth - 1, NULL, 0);
    case '[':
        return read_array(c, depth - 1);
    case '"':
        return read_string(c);
    case 't':
        return read_literal(c, "true");
    case 'f':
        return read_literal(c, "false");
    case 'n':
        return read_literal(c, "null");
    default:
        return read_number(c);
    }
}

bool read_members(Text text, Member *members, size_t count)
{
    Cursor c = {text.start, text.start + text.length};
    skip_space(&c);
    if (!read_object(&c, DEPTH_LIMIT, members, count))
        return false;
    skip_space(&c);
    return c.at == c.end;
}

bool is_object(Text value)
{
    return value.start != NULL && value.start[0] == '{';
}
