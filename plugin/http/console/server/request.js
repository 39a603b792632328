// Requests to the server that has sent the page. The token exists only in the memory of this
// module: it is in no storage, no cookie and no URL, and disappears when the page is closed.

let token = null;

export class RequestError extends Error {
  constructor(status, message, retry_after_s = null) {
    super(message);
    this.status = status;  // 0: no answer
    this.retry_after_s = retry_after_s;
  }

  get isDenied() {
    return this.status === 401 || this.status === 403;
  }
}

export function setToken(text) {
  token = text === "" ? null : text;
}

export function hasToken() {
  return token !== null;
}

async function messageOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

// Returns the response to a GET, whose body is not read yet. Throws RequestError, also for an
// answer without success.
export async function request(path, accept, signal) {
  const headers = { Accept: accept };
  if (token !== null) {
    headers.Authorization = `Bearer ${token}`;
  }
  let response;
  try {
    response = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new RequestError(0, "the server does not answer");
  }
  if (!response.ok) {
    const retry_after_s = Number.parseFloat(response.headers.get("Retry-After") ?? "");
    throw new RequestError(response.status, await messageOf(response),
                           Number.isFinite(retry_after_s) ? retry_after_s : null);
  }
  return response;
}

export async function getJson(path, signal) {
  const response = await request(path, "application/json", signal);
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new RequestError(0, `the answer of ${path} is incomplete`);
  }
}

const N_PAGES = 20;

// Returns all pages of a list as one answer: the first page, with the entries of all pages. A
// longer list is cut after N_PAGES pages, and then has `next`.
export async function getPages(path, key, signal) {
  const answer = await getJson(path, signal);
  let { next } = answer;
  for (let i = 1; next !== null && i < N_PAGES; i += 1) {
    const page = await getJson(`${path}?after=${encodeURIComponent(next)}`, signal);
    answer[key].push(...page[key]);
    next = page.next;
  }
  answer.next = next;
  return answer;
}
