import type { Resource, ApiObject } from '../../../../lib/kubernetes/client.ts';
import * as z from 'zod/mini';
import { describe, test, expect } from '@jest/globals';
import { ObjectStore } from '../../../../lib/kubernetes/informer.ts';

const resource: Resource<ApiObject> = {
  ...{ kind: 'Thing', path: '/things', selector: '', schema: z.any() },
  limits: { objects: 3, characters: 1000, page: null },
};
const thing = (name: string, resourceVersion: string): ApiObject => ({
  metadata: { namespace: 'shop', name, resourceVersion },
});
const put = (object: ApiObject) => ({ type: 'put' as const, object, version: '9' });

describe('an event', () => {
  test('changes one object; what it only repeats changes nothing', () => {
    const store = new ObjectStore(resource);
    expect(store.apply(put(thing('a', '1')))).toEqual([
      { key: 'shop/a', before: null, after: thing('a', '1') },
    ]);
    expect(store.apply(put(thing('a', '1')))).toEqual([]);
    const gone = { type: 'delete' as const, object: thing('a', '3'), version: '3' };
    expect(store.apply(gone)).toEqual([{ key: 'shop/a', before: thing('a', '1'), after: null }]);
    expect([store.apply(gone), store.apply({ type: 'bookmark', version: '8' })]).toEqual([[], []]);
  });

  test('that is older than what is known changes nothing, by the number that its version is', () => {
    const store = new ObjectStore(resource);
    store.replace([thing('a', '100')]);
    expect(store.apply(put(thing('a', '99')))).toEqual([]);
    expect(store.apply({ type: 'delete', object: thing('a', '99'), version: '99' })).toEqual([]);
    expect(store.apply(put(thing('a', '1000')))).toHaveLength(1);
    expect(store.apply(put(thing('a', 'next')))).toHaveLength(1);
  });

  test('with one object more than there may be is refused, and one of a known object is not', () => {
    const store = new ObjectStore(resource);
    store.replace([thing('a', '1'), thing('b', '1'), thing('c', '1')]);
    expect(() => store.apply(put(thing('d', '2')))).toThrow('it sends more than 3 Things');
    expect(store.apply(put(thing('c', '2')))).toHaveLength(1);
  });

  test('of an object that is to be kept no longer is as if it were gone', () => {
    const isKept = ({ metadata }: ApiObject) => metadata.resourceVersion === '1';
    const picky = new ObjectStore({ ...resource, isKept });
    picky.replace([thing('a', '1')]);
    expect(picky.apply(put(thing('a', '2')))).toEqual([
      { key: 'shop/a', before: thing('a', '1'), after: null },
    ]);
  });
});
