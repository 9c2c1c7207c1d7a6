/* Disjoint ranges of addresses, found by any address in them, in a balanced tree (tsearch(3)).
 * Whoever calls holds the lock that guards the tree. */
#pragma once

#include <stddef.h>

struct range {
    char *base;
    size_t bytes;
    struct range *next; /* of a list that ranges_list() made */
};

typedef void *ranges; /* a tree; NULL is an empty one */

/* 0 if it is empty, overlaps one that is there, or host memory is short. */
int ranges_add(ranges *tree, struct range *range);
void ranges_remove(ranges *tree, struct range *range);
/* One that has an address of [base, base + bytes) in it, or NULL. */
struct range *ranges_find(const ranges *tree, const void *base, size_t bytes);
/* All of them, by `next`, in the order of their addresses. */
struct range *ranges_list(const ranges *tree);
