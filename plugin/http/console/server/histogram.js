// Counts by latency: counts[i] is the number of calls of at most bounds_us[i], and the last element
// counts all others.

// Returns the sum of both. Either may be null.
export function mergeCounts(sum, counts) {
  if (!counts) {
    return sum;
  }
  return sum ? sum.map((count, i) => count + (counts[i] ?? 0)) : counts.slice();
}

export function totalCount(counts) {
  return counts ? counts.reduce((sum, count) => sum + count, 0) : 0;
}

// Returns the latency in ms that `share` of the calls did not exceed, or null without calls. Within
// a bucket, calls are assumed to be evenly distributed over its logarithm.
export function quantileMs(counts, bounds_us, share) {
  const rank = share * totalCount(counts);
  if (rank === 0) {
    return null;
  }
  let below = 0;
  for (let i = 0; i < bounds_us.length; i += 1) {
    if (below + counts[i] >= rank && counts[i] > 0) {
      const low = i > 0 ? bounds_us[i - 1] : bounds_us[i] / 2;
      return low * (bounds_us[i] / low) ** ((rank - below) / counts[i]) / 1000;
    }
    below += counts[i];
  }
  return bounds_us.at(-1) / 1000;
}
