import { type Page, readPage } from './answers.ts';
import { type ApiObject } from './api-object.ts';
import { LateError, NonsenseError, TooLongError, type Unreadable } from './errors.ts';
import { PageSize } from './page-size.ts';
import { type ApiCall, callApi } from './request.ts';
import { joinQuery, type Resource } from './resources.ts';
import { type Connection } from './route.ts';

/** What listing takes; the limit is for each page. The size of pages is kept by who lists again and again. */
export type ListOptions = Connection &
  Pick<ApiCall, 'clock' | 'forbidden' | 'signal'> & { readonly limitMs: number; readonly size?: PageSize };

/** All objects of a kind as of a version. */
export interface Listing<T> {
  /** Empty where the API does not have this kind. */
  readonly version: string;
  readonly objects: readonly T[];
  readonly unreadable: readonly Unreadable[];
}

/**
 * All objects of a kind, page by page. Of a kind that may be missing, and is: none, as of no version. Where objects are so large that a page is
 * too long, or takes too long, smaller pages are asked for.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN or API_ANSWER_UNEXPECTED; VersionGoneError when the list's
 * version was forgotten before its last page: it has to be listed anew.
 */
export async function listObjects<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
): Promise<Listing<T>> {
  const { size = new PageSize(resource.limits) } = options;
  const objects: T[] = [];
  const unreadable: Unreadable[] = [];
  let token: string | null = null;
  for (let pages = 1; ; pages += 1) {
    const page: Page<T> | null = await tryPage(resource, options, {
      size,
      token,
      before: objects.length,
      pages,
    });
    if (page === null) continue;
    objects.push(...page.objects.filter((object) => resource.isKept?.(object) !== false));
    unreadable.push(...page.unreadable);
    token = page.continueToken;
    if (token !== null) continue;
    size.finish();
    return { version: page.version, objects, unreadable };
  }
}

/** How far a list has come. */
interface Progress {
  readonly size: PageSize;
  readonly token: string | null;
  /** The objects of the pages before that are kept. */
  readonly before: number;
  /** With this one. A page of filtered objects can be empty. */
  readonly pages: number;
}

/** Null where fewer objects are to be asked for. A server that does not even begin to answer may be frozen: then others are asked first. */
async function tryPage<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
  progress: Progress,
): Promise<Page<T> | null> {
  const answer = { hasBegun: false };
  const onBegin = () => (answer.hasBegun = true);
  try {
    return await listPage(resource, options, { ...progress, onBegin });
  } catch (error) {
    const { cause } = error as Error;
    const isLate = cause instanceof LateError;
    const isTooMuch = isLate || cause instanceof TooLongError;
    if (isTooMuch && progress.size.shrink({ isLate }) && answer.hasBegun) return null;
    throw error;
  }
}

const okOrMissing: ReadonlySet<number> = new Set([200, 404]);

async function listPage<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
  { size, token, before, pages, onBegin }: Progress & { readonly onBegin: () => void },
): Promise<Page<T>> {
  const { kind, limits, remedy, absence } = resource;
  let text = '';
  let isMissing = false;
  return await callApi(
    {
      ...options,
      title: `listing ${kind}s`,
      path: toListPath(resource, size.value, token),
      limits: { beginMs: options.limitMs, endMs: options.limitMs },
      ...(remedy === undefined ? {} : { remedy }),
      ...(resource.mayBeMissing === true ? { accepted: okOrMissing } : {}),
      ...(absence === undefined ? {} : { absence }),
    },
    {
      onBegin: (status) => {
        onBegin();
        isMissing = status === 404;
      },
      onText: (part) => {
        text += part;
        if (text.length > limits.characters) throw new TooLongError('the answer is too long');
      },
      onEnd: () => {
        if (isMissing) return { version: '', objects: [], unreadable: [], continueToken: null };
        const page = readPage(resource, text);
        const count = page.objects.length + page.unreadable.length;
        if (before + count > limits.objects || pages > limits.objects)
          throw new NonsenseError(`it lists more than ${limits.objects} ${kind}s`);
        size.grow(count, text.length);
        return page;
      },
    },
  );
}

function toListPath(
  { path, selector }: Pick<Resource<ApiObject>, 'path' | 'selector'>,
  page: number | null,
  token: string | null,
): string {
  return joinQuery(path, [
    selector,
    page === null ? '' : `limit=${page}`,
    token === null ? '' : `continue=${encodeURIComponent(token)}`,
  ]);
}
