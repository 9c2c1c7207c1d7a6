#define _GNU_SOURCE
#include "ranges.h"

#include <search.h>
#include <stdatomic.h>

#include "exports.h"

/* For tests: what a look-up costs, on any machine. */
static _Atomic unsigned long comparisons;

EXPORT unsigned long gpuconf_comparisons(void)
{
    return atomic_load(&comparisons);
}

/* Ranges that overlap are equal: of those in a tree no two do. */
static int compare(const void *left, const void *right)
{
    const struct range *one = left, *other = right;
    atomic_fetch_add_explicit(&comparisons, 1, memory_order_relaxed);
    if (one->base + one->bytes <= other->base)
        return -1;
    return other->base + other->bytes <= one->base;
}

int ranges_add(ranges *tree, struct range *range)
{
    if (range->bytes == 0)
        return 0;
    struct range *const *found = tsearch(range, tree, compare);
    return found != NULL && *found == range;
}

void ranges_remove(ranges *tree, struct range *range)
{
    tdelete(range, tree, compare);
}

struct range *ranges_find(const ranges *tree, const void *base, size_t bytes)
{
    struct range key = {(char *)(size_t)base, bytes, NULL};
    struct range *const *found = bytes == 0 ? NULL : tfind(&key, tree, compare);
    return found == NULL ? NULL : *found;
}

static _Thread_local struct range *first, **last;

static void append(const void *node, VISIT visit, int depth)
{
    if (visit != postorder && visit != leaf) /* postorder: between its two subtrees */
        return;
    *last = *(struct range *const *)node;
    last = &(*last)->next;
}

struct range *ranges_list(const ranges *tree)
{
    last = &first;
    twalk(*tree, append);
    *last = NULL;
    return first;
}
