/* cuBLAS and cuBLASLt at work, as XLA calls them: settings are accepted, descriptors keep what they are
 * given, and products are left undone where kernels are skipped and refused, by name, elsewhere. */
#include "refusals.h"

/* ---- settings of a handle ---- */

ACCEPT(cublasDestroy_v2)
ACCEPT(cublasSetStream_v2)
ACCEPT(cublasSetMathMode)
ACCEPT(cublasSetPointerMode_v2)
ACCEPT(cublasSetAtomicsMode)
ACCEPT(cublasSetWorkspace_v2)
ACCEPT(cublasLtDestroy)

/* The default of each setting is 0. */
#define ANSWER_DEFAULT(name)                \
    EXPORT int name(void *handle, int *set) \
    {                                       \
        *set = 0;                           \
        return 0;                           \
    }

ANSWER_DEFAULT(cublasGetMathMode)
ANSWER_DEFAULT(cublasGetPointerMode_v2)
ANSWER_DEFAULT(cublasGetAtomicsMode)

/* ---- descriptors of cuBLASLt: XLA reads types and modes back and chooses by them ---- */

enum { CUBLAS_ALLOC_FAILED = 3, CUBLAS_INVALID_VALUE = 7 };
enum { ATTRIBUTES = 64, LONGEST_ATTRIBUTE = 16 };
enum { COMPUTE_TYPE = 0, SCALE_TYPE = 1 };                                /* of a product */
enum { ELEMENT_TYPE = 0, ROWS = 2, COLUMNS = 3, STRIDE = 4, BATCHES = 5 }; /* of a matrix */

struct descriptor {
    char values[ATTRIBUTES][LONGEST_ATTRIBUTE];
};

static int set_attribute(struct descriptor *descriptor, int name, const void *value, size_t bytes)
{
    if (name < 0 || name >= ATTRIBUTES || bytes > LONGEST_ATTRIBUTE)
        return CUBLAS_INVALID_VALUE;
    memcpy(descriptor->values[name], value, bytes);
    return 0;
}
SAME(cublasLtMatmulDescSetAttribute, set_attribute)
SAME(cublasLtMatrixLayoutSetAttribute, set_attribute)
SAME(cublasLtMatmulPreferenceSetAttribute, set_attribute)

static int get_attribute(struct descriptor *descriptor, int name, void *value, size_t bytes,
                         size_t *written)
{
    if (name < 0 || name >= ATTRIBUTES || bytes > LONGEST_ATTRIBUTE)
        return CUBLAS_INVALID_VALUE;
    memcpy(value, descriptor->values[name], bytes);
    if (written != NULL)
        *written = bytes;
    return 0;
}
SAME(cublasLtMatmulDescGetAttribute, get_attribute)
SAME(cublasLtMatrixLayoutGetAttribute, get_attribute)
SAME(cublasLtMatmulPreferenceGetAttribute, get_attribute)

static int destroy(struct descriptor *descriptor)
{
    free(descriptor);
    return 0;
}
SAME(cublasLtMatmulDescDestroy, destroy)
SAME(cublasLtMatrixLayoutDestroy, destroy)
SAME(cublasLtMatmulPreferenceDestroy, destroy)

static int create(struct descriptor **made)
{
    *made = calloc(1, sizeof **made);
    return *made == NULL ? CUBLAS_ALLOC_FAILED : 0;
}
SAME(cublasLtMatmulPreferenceCreate, create)

EXPORT int cublasLtMatmulDescCreate(struct descriptor **made, int compute_type, int scale_type)
{
    int status = create(made);
    if (status != 0)
        return status;
    set_attribute(*made, COMPUTE_TYPE, &compute_type, sizeof compute_type);
    return set_attribute(*made, SCALE_TYPE, &scale_type, sizeof scale_type);
}

EXPORT int cublasLtMatrixLayoutCreate(struct descriptor **made, int type, uint64_t rows,
                                      uint64_t columns, int64_t stride)
{
    static const int32_t one_batch = 1;
    int status = create(made);
    if (status != 0)
        return status;
    set_attribute(*made, ELEMENT_TYPE, &type, sizeof type);
    set_attribute(*made, ROWS, &rows, sizeof rows);
    set_attribute(*made, COLUMNS, &columns, sizeof columns);
    set_attribute(*made, STRIDE, &stride, sizeof stride);
    return set_attribute(*made, BATCHES, &one_batch, sizeof one_batch);
}

/* ---- products and solutions of triangular systems ---- */

#define REFUSE_FOR_EACH_TYPE(name) \
    REFUSE(cublasS##name)          \
    REFUSE(cublasD##name)          \
    REFUSE(cublasC##name)          \
    REFUSE(cublasZ##name)

REFUSE_FOR_EACH_TYPE(gemm_v2)
REFUSE_FOR_EACH_TYPE(gemv_v2)
REFUSE_FOR_EACH_TYPE(scal_v2)
REFUSE_FOR_EACH_TYPE(axpy_v2)
REFUSE_FOR_EACH_TYPE(gemmBatched)
REFUSE_FOR_EACH_TYPE(gemmStridedBatched)
REFUSE_FOR_EACH_TYPE(trsm_v2)
REFUSE_FOR_EACH_TYPE(trsmBatched)
REFUSE_FOR_EACH_TYPE(getrfBatched)
REFUSE_FOR_EACH_TYPE(getriBatched)
REFUSE_FOR_EACH_TYPE(matinvBatched)
REFUSE_FOR_EACH_TYPE(geam)
REFUSE(cublasHgemm)
REFUSE(cublasSgemmEx)
REFUSE(cublasGemmEx)
REFUSE(cublasGemmBatchedEx)
REFUSE(cublasGemmStridedBatchedEx)
REFUSE(cublasLtMatmul)
