import { expect, test } from '@jest/globals';
import { readEvent, readPage } from '../../../../lib/kubernetes/answers.ts';
import { NonsenseError, VersionGoneError } from '../../../../lib/kubernetes/errors.ts';
import { toServiceResource } from '../../../../lib/kubernetes/resources.ts';

const resource = toServiceResource({ namespace: 'shop', name: 'web' });
const web = { metadata: { name: 'web', resourceVersion: '5' }, spec: { clusterIP: '10.96.7.7' } };
const event = (type: string, object: object) => readEvent(resource, JSON.stringify({ type, object }));

test('a list is its version and its objects', () => {
  const text = JSON.stringify({ kind: 'ServiceList', metadata: { resourceVersion: '7' }, items: [web] });
  expect(readPage(resource, text)).toEqual({ version: '7', objects: [web], continueToken: null });
});

test('a page that is not the last one says what the next is asked for with', () => {
  const metadata = { resourceVersion: '7', continue: 'eyJ2Ijoi' };
  const page = readPage(resource, JSON.stringify({ kind: 'ServiceList', metadata, items: null }));
  expect(page).toEqual({ version: '7', objects: [], continueToken: 'eyJ2Ijoi' });
});

test('an event is an object that is there, one that is gone, or how far the watch has come', () => {
  expect(event('ADDED', web)).toEqual({ type: 'put', object: web, version: '5' });
  expect(event('MODIFIED', web)).toEqual({ type: 'put', object: web, version: '5' });
  expect(event('DELETED', web)).toEqual({ type: 'delete', object: web, version: '5' });
  expect(event('BOOKMARK', { metadata: { resourceVersion: '9' } })).toEqual({
    type: 'bookmark',
    version: '9',
  });
});

test('an event that ends the watch is an error: of its own kind when the version is too old', () => {
  expect(() => event('ERROR', { code: 410, message: 'too old' })).toThrow(VersionGoneError);
  expect(() => event('ERROR', { code: 500, message: 'etcd\u001bis away' })).toThrow(
    new NonsenseError('it ends with error 500: etcd is away'),
  );
});
