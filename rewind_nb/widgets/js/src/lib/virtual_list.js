// A list of which only what is in view is in the page.
//
// Each item is `height` high, apart from those that are `tall`: these say how high they came out.
import { useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

const BEYOND = 5; // items drawn above and below what is in view
const GUESS = 160; // px of a tall item that was not drawn yet

/**
 * What of `items` (each with a `key`) is to be drawn in a box that scrolls.
 * Gives `shown`: [item, position, top] each; `total`: the height of all; `reveal(position)`.
 */
export function useVirtual(items, height, keep) {
  const box = useRef(null);
  const known = useRef(new Map());
  const [, again] = useReducer((n) => n + 1, 0);
  const [view, setView] = useState({ top: 0, height: 480 });
  const taller = useMemo(
    () => items.flatMap((item, i) => (item.tall ? [i] : [])),
    [items],
  );
  const extra = (i) => (known.current.get(items[i].key) ?? GUESS) - height;
  const topOf = (position) => {
    let top = position * height;
    for (const i of taller) if (i < position) top += extra(i);
    return top;
  };
  const at = (y) => {
    let [low, high] = [0, items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (topOf(middle + 1) <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  useLayoutEffect(() => {
    const seen = () => {
      const { scrollTop, clientHeight } = box.current;
      setView({ top: scrollTop, height: clientHeight || 480 });
    };
    const sized = new ResizeObserver(seen);
    sized.observe(box.current);
    box.current.addEventListener("scroll", seen, { passive: true });
    return () => sized.disconnect();
  }, []);

  const first = Math.max(0, at(view.top) - BEYOND);
  const last = Math.min(items.length, at(view.top + view.height) + 1 + BEYOND);
  const positions = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  if (keep >= 0 && keep < items.length && (keep < first || keep >= last)) positions.push(keep);
  return {
    box,
    total: topOf(items.length),
    shown: positions.map((i) => [items[i], i, topOf(i)]),
    measured(key, size) {
      if (known.current.get(key) === size || !size) return;
      known.current.set(key, size);
      again();
    },
    /** Scroll as little as needed; `above` is covered by what sticks to the top of the box. */
    reveal(position, count, above) {
      const { scrollTop, clientHeight } = box.current;
      const [top, bottom] = [topOf(position), topOf(position + count) + above];
      if (top < scrollTop) box.current.scrollTop = top;
      else if (bottom > scrollTop + clientHeight)
        box.current.scrollTop = Math.min(top, bottom - clientHeight);
    },
  };
}
