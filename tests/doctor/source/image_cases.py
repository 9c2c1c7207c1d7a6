"""Scripts about how much goes into memory at once."""

from __future__ import annotations

from typing import Any

IMAGES: tuple[tuple[Any, ...], ...] = (
    (
        "whole_set", "on_batch",
        """
        from keras.datasets import mnist
        (x_train, y_train), (x_test, y_test) = mnist.load_data()
        x_test = x_test.astype("float32")
        x_test /= 255
        scores = model.predict_on_batch(x_test)
        loss = model.test_on_batch(x_test, y_test)
        model.train_on_batch(x=x_train, y=y_train)
        """, 5, 6, 7,
    ),
    (
        "whole_set", "batch_size as long as the data",
        """
        import numpy as np
        images = np.load("images.npy")
        size = images.shape[0]
        model.predict(images, batch_size=size)
        X_train, X_val = split(images)
        model.fit(X_train, y, batch_size=len(X_train), epochs=3)
        model.evaluate([X_val, X_val], y, batch_size=X_val.shape[0])
        """, 4, 6, 7,
    ),
    (
        "whole_set", "the model called",
        """
        import numpy as np
        import tensorflow as tf
        test_images = np.load("test.npy")
        model = tf.keras.models.load_model("m.keras")
        logits = model(test_images, training=False)
        """, 5,
    ),
    (
        "whole_set", "K.function",
        """
        import numpy as np
        from tensorflow.keras import backend as K
        X_test = np.load("x.npy")
        layer = K.function([model.input], [model.layers[3].output])
        out = layer([X_test])
        """, 5,
    ),
    (
        "whole_set", "one tensor",
        """
        import keras
        import tensorflow as tf
        (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
        x_train = tf.convert_to_tensor(x_train, dtype=tf.float32)
        print(tf.reduce_mean(tf.constant(value=x_test)))
        """, 4, 5,
    ),
    (
        "whole_set", "a test set fed to a graph",
        """
        import tensorflow.compat.v1 as tf
        from tensorflow import keras
        (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
        sess = tf.Session()
        feed = {x: x_test, y: y_test}
        print(sess.run(accuracy, feed))
        print(accuracy.eval(feed_dict={x: mnist.test.images, keep_prob: 1.0}))
        accuracy.eval({x: x_test}, sess)
        """, 6, 7, 8,
    ),
    (
        "whole_set", "a graph that learns, or is fed a part",
        """
        import tensorflow.compat.v1 as tf
        from tensorflow import keras
        (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
        sess = tf.Session()
        sess.run(step, feed_dict={x: x_train, y: y_train})
        sess.run(accuracy, feed_dict={x: x_test[:100]})
        step.run(feed_dict={x: x_test})
        accuracy.eval(feed_dict={x: mnist.test.images[:500]})
        frame.eval("a + b")
        """,
    ),
    (
        "whole_set", "gpuconf's own calls",
        """
        import gpuconf, keras
        (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
        gpuconf.fit(model, x_train, y_train, batch_size=len(x_train))
        gpuconf.predict(model, x_test, batch_size=len(x_test))
        """,
    ),
    (
        "whole_set", "a tensor of labels, of a piece, on the CPU, or of a parameter",
        """
        import keras
        import tensorflow as tf
        (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
        labels = tf.constant(y_train)
        first = tf.constant(x_train[:32])
        with tf.device("CPU"):
            x = tf.convert_to_tensor(x_train)
        def tensor(x_test):
            return tf.convert_to_tensor(x_test)
        for x_val in x_test:
            tf.constant(x_val)
        """,
    ),
    (
        "whole_set", "a tensor in a graph",
        """
        import tensorflow as tf
        tf.compat.v1.disable_eager_execution()
        (x_train, y_train), _ = tf.keras.datasets.mnist.load_data()
        x = tf.constant(x_train)
        """,
    ),
    (
        "whole_set", "batches by name, slice, loop and parameter",
        """
        import numpy as np
        x_test = np.load("x.npy")
        model.predict_on_batch(x_test[:64])
        for x_val in batches:
            model.predict_on_batch(x_val)
        def step(x_train, y_train):
            return model.train_on_batch(x_train, y_train)
        x_train_batch = next(iterator)
        model.train_on_batch(x_train_batch, y)
        x_train, y_train = generator.next()
        model.train_on_batch(x_train, y_train)
        model.predict(x_test, batch_size=64)
        model.predict(x_test, batch_size=len(test_batches))
        """,
    ),
    (
        "whole_set", "made anew in the loop",
        """
        for number in range(count):
            X = load(number)
            X_test = X[:, 0:10]
            model.predict_on_batch(X_test)
        """,
    ),
    (
        "whole_set", "replayed steps",
        """
        import numpy as np
        states = np.array([each[0] for each in minibatch])
        model.fit(states, targets, batch_size=len(states), verbose=0)
        """,
    ),
    (
        "whole_set", "a handful, and a toy",
        """
        import numpy as np
        x_train = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        model.fit(x_train, y, batch_size=len(x_train))
        """,
    ),
    (
        "whole_set", "iris",
        """
        from sklearn.datasets import load_iris
        x_train, y_train = load_iris(return_X_y=True)
        model.fit(x_train, y_train, batch_size=len(x_train))
        """,
    ),
    (
        "whole_set", "another thing is called",
        """
        from sklearn.preprocessing import StandardScaler
        x_test = load()
        scaler = StandardScaler()
        model = build()
        model(x_test)
        print(x_test)
        """,
    ),
    (
        "images_in_list", "a loop",
        """
        import cv2, os, keras
        import numpy as np
        images, labels = [], []
        for name in os.listdir("train"):
            image = cv2.imread(os.path.join("train", name))
            image = cv2.resize(image, (224, 224)) / 255.0
            images.append(image)
            labels.append(name[:3])
        x = np.array(images)
        """, 7,
    ),
    (
        "images_in_list", "a function, a helper",
        """
        import tensorflow as tf
        from PIL import Image
        import numpy as np
        def read(path):
            picture = Image.open(path).convert("RGB")
            return np.asarray(picture)
        def load(paths):
            data = []
            for path in paths:
                data.append(read(path))
            return np.stack(data), len(paths)
        """, 10,
    ),
    (
        "images_in_list", "comprehensions",
        """
        import numpy as np
        from tensorflow.keras.utils import load_img, img_to_array
        x = np.array([img_to_array(load_img(path)) for path in paths])
        pictures = [load_img(path) for path in paths]
        y = np.stack(pictures)
        """, 3, 4,
    ),
    (
        "images_in_list", "read and resized at once",
        """
        import cv2, glob, keras
        import numpy as np
        images = [cv2.resize(cv2.imread(file), (224, 224)) for file in glob.glob("photos/*.jpg")]
        images = np.array(images) / 255.0
        """, 3,
    ),
    (
        "images_in_list", "counted, many and few",
        """
        import cv2, keras
        import numpy as np
        many, few = [], []
        for i in range(12500):
            many.append(cv2.imread(f"train/cat.{i}.jpg"))
        for i in range(9):
            few.append(cv2.imread(f"train/cat.{i}.jpg"))
        x, y = np.array(many), np.array(few)
        """, 5,
    ),
    (
        "images_in_list", "a batch, a generator, a Sequence",
        """
        import cv2, keras
        import numpy as np
        class Data(keras.utils.Sequence):
            def __getitem__(self, index):
                images = []
                for path in self.paths[index]:
                    images.append(cv2.imread(path))
                return np.array(images)
            def read(self, paths):
                return np.array([cv2.imread(path) for path in paths])
        def read_batch(paths):
            return np.array([cv2.imread(path) for path in paths])
        def forever(paths):
            while True:
                images = []
                for path in paths:
                    images.append(cv2.imread(path))
                yield np.array(images)
        def flow(paths):
            images = []
            for path in paths:
                images.append(cv2.imread(path))
            yield np.array(images)
        for folder in folders:
            images = []
            for path in folder:
                images.append(cv2.imread(path))
            model.train_on_batch(np.array(images))
        for path in paths:
            one = []
            one.append(cv2.imread(path))
            model(np.array(one))
        windows = np.array([cv2.imread(path) for path in paths[i : i + 16]])
        """,
    ),
    (
        "images_in_list", "features, sizes and labels",
        """
        import cv2, keras
        import numpy as np
        features, sizes, names = [], [], []
        for path in paths:
            image = cv2.imread(path)
            features.append(model.predict(image))
            sizes.append(image.shape)
            names.append(path)
        x = np.array(features), np.array(sizes), np.array(names)
        """,
    ),
    (
        "images_in_list", "shown, not stacked",
        """
        import keras
        import matplotlib.pyplot as plt
        for path in paths:
            shown = []
            shown.append(plt.imread(path))
            plt.imshow(shown[0])
        nine = [plt.imread(path) for path in paths]
        """,
    ),
    (
        "images_in_list", "no training here",
        "import cv2\nimport numpy as np\nx = np.array([cv2.imread(p) for p in paths])\n",
    ),
    ("clean", "nothing", "import gpuconf.auto\nimport keras\n", 0),
    ("clean", "a problem", 'import os\nos.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"\n'),
)  # fmt: skip
