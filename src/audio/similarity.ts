/** Maximum self-similarity of noise: steady sound in which one place is as good as another. */
export const NOISE_SIMILARITY = 0.5;

/**
 * Returns the similarity of two stretches of sound: their normalized correlation, but less if their levels differ; -1…1, 1 only if
 * they are equal, 0 if both are silent.
 * @param other at least as long as `one`; samples beyond that length are ignored
 */
export function similarityOf(one: Float32Array, other: Float32Array): number {
  let [product, power] = [0, 0];
  for (let i = 0; i < one.length; i += 1) {
    product += one[i]! * other[i]!;
    power += one[i]! ** 2 + other[i]! ** 2;
  }
  return similarityFrom(product, power);
}

/** Returns the similarity from the sum of the products and the sum of the squares. */
export const similarityFrom = (product: number, power: number) =>
  power > 0 ? (2 * product) / power : 0;
