/* The one kind of kernel that really runs: filling a tensor with one value. */
#ifndef GPUCONF_SIMCARD_EIGEN_FILL_H
#define GPUCONF_SIMCARD_EIGEN_FILL_H

/* If `name` is a kernel with which TensorFlow fills a tensor (tf.zeros, tf.ones, tf.fill, a
 * constant given with a shape, a variable of zeros), do what it does and return 1; else 0, with
 * nothing touched. */
int eigen_fill(const char *name, void **arguments);

#endif
