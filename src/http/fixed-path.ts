/** Segments by which the path of a static file would mean another path than it shows. */
const MISLEADING = /%|\\|(^|\/)\/|(^|\/)\.{1,2}(\/|$)/;

/**
 * Returns true if a request spells the fixed parts of its route as they are, so that a proxy which compares text sees what the
 * router sees. Parameters (names of rooms and peers) may be percent-encoded.
 * @param url URL of the request, as it came
 * @param route pattern of the route that takes it, such as `/api/admin/rooms/:account_id/:room` or `/*`
 */
export function spellsFixedParts(url: string, route: string): boolean {
  const [path = ''] = url.split('?', 1);
  const segments = path.split('/');
  const fixed = route.split('/');
  for (const [index, part] of fixed.entries()) {
    if (part.startsWith(':')) continue;
    if (part.includes('*')) return !MISLEADING.test(segments.slice(index).join('/'));
    if (part !== segments[index]) return false;
  }
  return true;
}
