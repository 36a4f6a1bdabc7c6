import { expect, test } from '@jest/globals';
import { isMounted } from '../../../../../lib/kernel/host/host-paths.ts';

test.each([
  ['/etc/kubernetes/admin.conf', ['/', '/etc/kubernetes'], true],
  ['/etc/kubernetes/admin.conf', ['/', '/etc/kubernetes/admin.conf'], true],
  ['/etc/kubernetes/admin.conf', ['/', '/etc/kube', '/etc/kubernetes/pki'], false],
  ['/etc/kubernetes/admin.conf', ['/'], false],
  ['/run/vipnat/keepalived/serving', ['/', '/run'], true],
])('that %s is below one of %j is %s', (path, mounts, expected) => {
  expect(isMounted(path, new Set(mounts))).toBe(expected);
});
