/** Calls `action` once things have been quiet for `delayMs`: for search fields that ask while somebody types. */
export function debounce<A extends unknown[]>(action: (...args: A) => void, delayMs: number): (...args: A) => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (...args: A) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), delayMs);
  };
}
