import { type Page, readPage, type Unreadable } from './answers.ts';
import { type ApiObject } from './api-object.ts';
import { NonsenseError } from './errors.ts';
import { type ApiCall, callApi } from './request.ts';
import { joinQuery, type Resource } from './resources.ts';
import { type Connection } from './route.ts';

/** What listing takes; the limit is for each page. */
export type ListOptions = Connection &
  Pick<ApiCall, 'clock' | 'forbidden' | 'signal'> & { readonly limitMs: number };

/** All objects of a kind as of a version. */
export interface Listing<T> {
  /** Empty where the API does not have this kind. */
  readonly version: string;
  readonly objects: readonly T[];
  readonly unreadable: readonly Unreadable[];
}

/**
 * All objects of a kind, page by page. Of a kind that may be missing, and is: none, as of no version.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN or API_ANSWER_UNEXPECTED; VersionGoneError when the list's
 * version was forgotten before its last page: it has to be listed anew.
 */
export async function listObjects<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
): Promise<Listing<T>> {
  const objects: T[] = [];
  const unreadable: Unreadable[] = [];
  let token: string | null = null;
  for (let pages = 1; ; pages += 1) {
    const page: Page<T> = await listPage(resource, options, { token, before: objects.length, pages });
    objects.push(...page.objects.filter((object) => resource.isKept?.(object) !== false));
    unreadable.push(...page.unreadable);
    token = page.continueToken;
    if (token === null) return { version: page.version, objects, unreadable };
  }
}

/** How far a list has come. */
interface Progress {
  readonly token: string | null;
  /** The objects of the pages before that are kept. */
  readonly before: number;
  /** With this one. A page of filtered objects can be empty. */
  readonly pages: number;
}

const okOrMissing: ReadonlySet<number> = new Set([200, 404]);

async function listPage<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
  { token, before, pages }: Progress,
): Promise<Page<T>> {
  const { kind, limits, remedy, absence } = resource;
  let text = '';
  let isMissing = false;
  return await callApi(
    {
      ...options,
      title: `listing ${kind}s`,
      path: toListPath(resource, token),
      limits: { beginMs: options.limitMs, endMs: options.limitMs },
      ...(remedy === undefined ? {} : { remedy }),
      ...(resource.mayBeMissing === true ? { accepted: okOrMissing } : {}),
      ...(absence === undefined ? {} : { absence }),
    },
    {
      onBegin: (status) => {
        isMissing = status === 404;
      },
      onText: (part) => {
        text += part;
        if (text.length > limits.characters) throw new NonsenseError('the answer is too long');
      },
      onEnd: () => {
        if (isMissing) return { version: '', objects: [], unreadable: [], continueToken: null };
        const page = readPage(resource, text);
        if (before + page.objects.length > limits.objects || pages > limits.objects)
          throw new NonsenseError(`it lists more than ${limits.objects} ${kind}s`);
        return page;
      },
    },
  );
}

function toListPath(
  { path, selector, limits: { page } }: Pick<Resource<ApiObject>, 'path' | 'selector' | 'limits'>,
  token: string | null,
): string {
  return joinQuery(path, [
    selector,
    page === null ? '' : `limit=${page}`,
    token === null ? '' : `continue=${encodeURIComponent(token)}`,
  ]);
}
