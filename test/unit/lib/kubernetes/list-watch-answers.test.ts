import {
  BusyError,
  toServiceResource,
  VersionGoneError,
  NonsenseError,
} from '../../../../lib/kubernetes/client.ts';
import { readEvent, readPage } from '../../../../lib/kubernetes/list-watch.ts';
import { test, expect } from '@jest/globals';

const resource = toServiceResource({ namespace: 'shop', name: 'web' });
const web = { metadata: { name: 'web', resourceVersion: '5' }, spec: { clusterIP: '10.96.7.7' } };
const event = (type: string, object: object) => readEvent(resource, JSON.stringify({ type, object }));

test.each([
  ['ADDED', web, { type: 'put', object: web, version: '5' }],
  ['MODIFIED', web, { type: 'put', object: web, version: '5' }],
  ['DELETED', web, { type: 'delete', object: web, version: '5' }],
  ['BOOKMARK', { metadata: { resourceVersion: '9' } }, { type: 'bookmark', version: '9' }],
])('an event is an object that is there or gone, or how far the watch has come: %s', (type, object, read) => {
  expect(event(type, object)).toEqual(read);
});

test('an event that ends the watch is an error: of its own kind when the version is too old', () => {
  expect(() => event('ERROR', { code: 410, message: 'too old' })).toThrow(VersionGoneError);
  expect(() => event('ERROR', { code: 500, message: 'etcd\u001bis away' })).toThrow(
    new BusyError('it ends with error 500: etcd is away', 0),
  );
});

test('an object that cannot be read is named, and stops neither the list nor the watch', () => {
  const odd = { metadata: { name: 'odd', namespace: 'shop', resourceVersion: '6' }, spec: { clusterIP: 7 } };
  const unreadable = { key: 'shop/odd', version: '6', why: 'spec.clusterIP' };
  const metadata = { resourceVersion: '7' };
  const page = readPage(resource, JSON.stringify({ kind: 'ServiceList', metadata, items: [odd, web] }));
  expect(page).toMatchObject({ objects: [web], unreadable: [unreadable] });
  expect(event('MODIFIED', odd)).toEqual({ type: 'unreadable', isGone: false, unreadable, version: '6' });
  expect(event('DELETED', odd)).toMatchObject({ type: 'unreadable', isGone: true });
  // What has no name is nothing of the API's.
  expect(() => event('ADDED', { metadata: {} })).toThrow(NonsenseError);
});
