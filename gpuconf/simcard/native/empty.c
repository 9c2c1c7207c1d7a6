/* cuBLAS, cuFFT, cuSOLVER and cuSPARSE: TensorFlow lists no GPU unless they load.  They offer
 * nothing, so that a call to them fails with "symbol not found". */
__attribute__((visibility("default"))) const char gpuconf_simulated_library[] =
    "gpuconf simulated card: an empty library";
