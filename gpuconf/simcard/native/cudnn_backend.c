/* cuDNN's backend API, as XLA uses it: descriptors keep what they are given, the heuristics know one
 * engine, and a plan needs the workspace that a variable names, or none.  Nothing is computed: a plan is executed where kernels are
 * skipped, and refused elsewhere.
 *
 * Numbers are those of cudnn_backend.h; only what XLA reads back has a name here. */
#include <stddef.h>
#include <stdint.h>

#include "skipping.h"

enum {
    SUCCESS = 0,
    ALLOC_FAILED = CUDNN_VERSION >= 90000 ? 4001 : 2,
    BAD_PARAM = CUDNN_VERSION >= 90000 ? 2000 : 3,
    NOT_SUPPORTED = CUDNN_VERSION >= 90000 ? 3000 : 9,
};
enum descriptor_kind { ENGINE = 2, ENGINE_CONFIG = 3, HEURISTICS = 4, PLAN = 5, GRAPH = 15 };
enum attribute_name {
    HEURISTICS_RESULTS = 202,
    CONFIG_ENGINE = 300,
    PLAN_WORKSPACE_BYTES = 402,
    PLAN_JSON = 405,
    GRAPH_ENGINE_COUNT = 802,
    ENGINE_INDEX = 1301,
};

struct attribute {
    struct attribute *next;
    int name, type;
    int64_t count;
    char values[];
};

struct descriptor {
    int kind;
    struct attribute *attributes;
};

/* Of one element, by its cudnnBackendAttributeType_t; what is not listed has 4. */
static size_t element_bytes(int type)
{
    enum { HANDLE = 0, BOOLEAN = 2, INT64 = 3, DOUBLE = 5, VOID_POINTER = 6, CHAR = 24 };
    enum { DESCRIPTOR = 15, FRACTION = 22 };
    switch (type) {
    case BOOLEAN:
    case CHAR:
        return 1;
    case HANDLE:
    case INT64:
    case DOUBLE:
    case VOID_POINTER:
    case DESCRIPTOR:
        return 8;
    case FRACTION:
        return 16;
    default:
        return 4;
    }
}

EXPORT int cudnnBackendCreateDescriptor(int kind, struct descriptor **made)
{
    *made = NULL;
    if (!gives_handles())
        return NOT_SUPPORTED;
    *made = calloc(1, sizeof **made);
    if (*made == NULL)
        return ALLOC_FAILED;
    (*made)->kind = kind;
    return SUCCESS;
}

EXPORT int cudnnBackendDestroyDescriptor(struct descriptor *descriptor)
{
    if (descriptor == NULL)
        return SUCCESS;
    for (struct attribute *each = descriptor->attributes, *next; each != NULL; each = next) {
        next = each->next;
        free(each);
    }
    free(descriptor);
    return SUCCESS;
}

EXPORT int cudnnBackendInitialize(struct descriptor *descriptor)
{
    return descriptor == NULL ? BAD_PARAM : SUCCESS;
}
SAME(cudnnBackendFinalize, cudnnBackendInitialize)

EXPORT int cudnnBackendSetAttribute(struct descriptor *descriptor, int name, int type,
                                    int64_t count, const void *values)
{
    size_t bytes = (size_t)count * element_bytes(type);
    struct attribute *made = malloc(sizeof *made + bytes);
    if (made == NULL)
        return ALLOC_FAILED;
    *made = (struct attribute){descriptor->attributes, name, type, count};
    if (bytes > 0)
        memcpy(made->values, values, bytes);
    descriptor->attributes = made; /* the last that was set is found first */
    return SUCCESS;
}

/* How many values there are of `wanted`; they are written only where there is room for any. */
static int64_t answer_number(int64_t number, int64_t wanted, void *values)
{
    if (wanted > 0 && values != NULL)
        memcpy(values, &number, sizeof number);
    return 1;
}

static int64_t answer_text(const char *text, int64_t wanted, void *values)
{
    int64_t bytes = (int64_t)strlen(text) + 1;
    if (wanted > 0 && values != NULL)
        memcpy(values, text, (size_t)(wanted < bytes ? wanted : bytes));
    return bytes;
}

static int64_t answer_kept(const struct descriptor *descriptor, int name, int64_t wanted,
                           void *values)
{
    const struct attribute *each = descriptor->attributes;
    while (each != NULL && each->name != name)
        each = each->next;
    if (each == NULL)
        return 0;
    int64_t count = wanted < each->count ? wanted : each->count;
    if (count > 0 && values != NULL)
        memcpy(values, each->values, (size_t)count * element_bytes(each->type));
    return each->count;
}

/* What a program that measures memory wants each convolution to take. */
static int64_t workspace_bytes(void)
{
    const char *text = getenv("GPUCONF_SIMCARD_WORKSPACE");
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

/* XLA gives descriptors of its own to be filled for results and engines: they stay as they are. */
EXPORT int cudnnBackendGetAttribute(struct descriptor *descriptor, int name, int type,
                                    int64_t wanted, int64_t *count, void *values)
{
    int64_t found;
    if (descriptor->kind == HEURISTICS && name == HEURISTICS_RESULTS)
        found = 1;
    else if (descriptor->kind == ENGINE_CONFIG && name == CONFIG_ENGINE)
        found = 1;
    else if (descriptor->kind == ENGINE && name == ENGINE_INDEX)
        found = answer_number(0, wanted, values);
    else if (descriptor->kind == GRAPH && name == GRAPH_ENGINE_COUNT)
        found = answer_number(1, wanted, values);
    else if (descriptor->kind == PLAN && name == PLAN_WORKSPACE_BYTES)
        found = answer_number(workspace_bytes(), wanted, values);
    else if (descriptor->kind == PLAN && name == PLAN_JSON)
        found = answer_text("{}", wanted, values);
    else
        found = answer_kept(descriptor, name, wanted, values);
    if (count != NULL)
        *count = found;
    return SUCCESS;
}

EXPORT int cudnnBackendExecute(void *handle, struct descriptor *plan, struct descriptor *pack)
{
    return work_is_skipped() ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int cudnnGetStream(void *handle, void **stream)
{
    *stream = NULL;
    return handle == NULL ? BAD_PARAM : SUCCESS;
}

EXPORT void cudnnGetLastErrorString(char *message, size_t bytes)
{
    if (bytes > 0)
        *message = '\0';
}
