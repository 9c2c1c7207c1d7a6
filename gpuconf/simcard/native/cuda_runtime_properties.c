/* libcudart.so.12 and .13: struct cudaDeviceProp.  Its fields are those of the driver's attributes.
 * Here is where each lies and its size, from driver_types.h of CUDA 12 and of CUDA 13.2. */
#include <stdio.h>
#include <string.h>

#include "cuda_runtime.h"
#include "engine.h"

#if CUDA_MAJOR >= 13
enum { PROPERTIES_BYTES = 1008 };
#define cudaGetDeviceProperties_v2 cudaGetDeviceProperties
#else
enum { PROPERTIES_BYTES = 1032 };
#endif

static const struct {
    short offset, bytes, attribute;
} properties[] = {
#if CUDA_MAJOR >= 13
    {296, 8, 8}, {304, 4, 12}, {308, 4, 10}, {312, 8, 11}, {320, 4, 1}, {324, 4, 2},
    {328, 4, 3}, {332, 4, 4}, {336, 4, 5}, {340, 4, 6}, {344, 4, 7}, {352, 8, 9}, {360, 4, 75},
    {364, 4, 76}, {368, 8, 14}, {376, 8, 51}, {384, 4, 16}, {392, 4, 19}, {560, 4, 31},
    {568, 4, 33}, {584, 4, 40}, {588, 4, 41}, {592, 4, 37}, {596, 4, 38}, {604, 4, 39},
    {608, 4, 78}, {612, 4, 79}, {616, 4, 80}, {624, 8, 81}, {632, 4, 82}, {672, 8, 97},
    {688, 4, 106}, {696, 8, 111},
#else
    {296, 8, 8},   {304, 4, 12},  {308, 4, 10}, {312, 8, 11},  {320, 4, 1},   {324, 4, 2},
    {328, 4, 3},   {332, 4, 4},   {336, 4, 5},  {340, 4, 6},   {344, 4, 7},   {348, 4, 13},
    {352, 8, 9},   {360, 4, 75},  {364, 4, 76}, {368, 8, 14},  {376, 8, 51},  {388, 4, 16},
    {400, 4, 19},  {576, 4, 31},  {584, 4, 33}, {600, 4, 40},  {604, 4, 41},  {608, 4, 36},
    {612, 4, 37},  {616, 4, 38},  {624, 4, 39}, {628, 4, 78},  {632, 4, 79},  {636, 4, 80},
    {640, 8, 81},  {648, 4, 82},  {696, 8, 97}, {712, 4, 106}, {720, 8, 111},
#endif
};

EXPORT int cudaGetDeviceProperties_v2(char *filled, int device)
{
    int status = runtime_check_device(device);
    if (status != CUDA_OK)
        return runtime_note(status);
    memset(filled, 0, PROPERTIES_BYTES);
    snprintf(filled, 256, "%s", gpuconf_spec()->name);
    gpuconf_device_uuid(device, (unsigned char *)filled + 256);
    size_t total = gpuconf_spec()->total_bytes;
    memcpy(filled + 288, &total, sizeof total);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        int64_t value = gpuconf_device_attribute(properties[i].attribute, device);
        memcpy(filled + properties[i].offset, &value, (size_t)properties[i].bytes);
    }
    return CUDA_OK;
}
