// Lists that the server gives in pages.

import { call } from "./api.js";

const MOST = 20; // pages

/** All that a list has, oldest first; of a very long one, what is newest. `query` is what its
 * address has further. */
export async function pages(path, query = "") {
  const found = [];
  let after = "";
  for (let page = 0; page < MOST; page++) {
    const { data, has_more: more, last_id: last } = await call("GET", `${path}?limit=100${query}${after}`);
    found.unshift(...data.reverse());
    if (!more) break;
    after = `&after=${encodeURIComponent(last)}`;
  }
  return found;
}
