import { expect, jest, test } from '@jest/globals';
import { runInNetworkNamespace } from '../../support/network/network-namespace.ts';

jest.setTimeout(120_000);

const dropped = 'the folder did not exist when keepalived started, or was replaced since';

test('whether keepalived follows the track file is seen, with the cause', async () => {
  const child = new URL('guard-child.ts', import.meta.url);
  // In its own user namespace it can set the limit of inotify.
  expect(await runInNetworkNamespace(child, ['--map-root-user', '--mount'])).toEqual({
    none: { isWatched: null },
    well: { isWatched: true },
    late: { isWatched: false, cause: dropped },
    again: { isWatched: false, cause: dropped },
    moved: { isWatched: false, cause: dropped },
    elsewhere: { isWatched: false, cause: 'its container has another folder there, or none' },
    unreadable: { isWatched: false, cause: 'it may not read the file or its folder' },
    unnamed: { isWatched: false, cause: 'keepalived.conf does not name it' },
    limited: {
      isWatched: false,
      cause: 'this host was at fs.inotify.max_user_instances or max_user_watches when it started',
    },
  });
});
