import { NonsenseError } from './errors.ts';
import { type ApiCall, callApi } from './request.ts';
import { type ApiObject, type Listing, maxAnswerLength, readListing, type Resource } from './resources.ts';
import { type Connection } from './route.ts';

/** What listing takes; the limit is for the whole answer. */
export type ListOptions = Connection &
  Pick<ApiCall, 'clock' | 'forbidden' | 'signal'> & { readonly limitMs: number };

/**
 * All objects of a kind.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN or API_ANSWER_UNEXPECTED
 */
export async function listObjects<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
): Promise<Listing<T>> {
  let text = '';
  return await callApi(
    {
      ...options,
      title: `listing ${resource.kind}s`,
      path: `${resource.path}?${resource.selector}`,
      limits: { beginMs: options.limitMs, endMs: options.limitMs },
    },
    {
      onText: (part) => {
        text += part;
        if (text.length > maxAnswerLength) throw new NonsenseError('the answer is too long');
      },
      onEnd: () => readListing(resource, text),
    },
  );
}
