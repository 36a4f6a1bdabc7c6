import { readWords } from '../../../support/manifest/printing.ts';
import { describe, test, expect } from '@jest/globals';
import { timeProcessor } from '../../../support/host/processor-time.ts';

const problemsOf = async (...words: string[]) =>
  (await readWords(['daemonset', '--vip', '10.0.0.50', ...words])).problems;

test.each<[string, readonly string[], readonly string[], RegExp]>([
  [
    '--image',
    [
      ...['vipnat', 'vipnat:0.1.0', 'registry.example.com/vipnat:0.1.0', 'localhost:5000/a/b__c/vip-nat'],
      ...['[fd00::1]:5000/vipnat:v1', `vipnat@sha256:${'a'.repeat(64)}`],
      `r.example/vipnat:0.1.0@sha256:${'0'.repeat(64)}`,
    ],
    [
      ...['', ' ', 'a b', 'Vipnat', 'vipnat:', 'vipnat:a:b', '/vipnat', 'a//b', 'vipnat@sha256:12'],
      ...['x\ny', '-x'],
    ],
    /^--image \S.* is not an image reference\. Example: --image registry\.example\/vipnat:0\.1\.0$/,
  ],
  [
    '--namespace',
    ['kube-system', 'a', '1', 'a'.repeat(63)],
    ['', 'A', 'a_b', '-a', 'a-', 'a.b', 'a\n', 'a'.repeat(64)],
    /^--namespace \S.* is not a namespace: .* Example: --namespace kube-system$/,
  ],
])('%s can be %j, and none of %j, which is said in one line', async (flag, right, wrong, problem) => {
  for (const text of right) expect([text, await problemsOf(flag, text)]).toEqual([text, []]);
  const problems: unknown = [expect.stringMatching(problem)];
  for (const text of wrong) expect([text, await problemsOf(`${flag}=${text}`)]).toEqual([text, problems]);
});

test('an image that is endless is refused soon', async () => {
  const tookMs = await timeProcessor(async () => {
    expect(await problemsOf('--image', `${'a-'.repeat(100_000)}!`)).toHaveLength(1);
    expect(await problemsOf('--image', 'a'.repeat(256))).toHaveLength(1);
  });
  expect(tookMs).toBeLessThan(10_000);
});

test("a node's name is for no DaemonSet, whose pods are told their own", async () => {
  expect(await problemsOf('--node-name', 'm1')).toEqual([
    '--node-name m1 would give every node of the DaemonSet the same name: leave it out',
  ]);
  expect((await readWords(['static-pod', '--vip', '10.0.0.50', '--node-name', 'm1'])).problems).toEqual([]);
});

describe('a path for the nodes', () => {
  test.each(['/ca.crt', '/a/..b/c d', '/srv/vipnat/'])('can be %s, though it is not here', async (path) => {
    expect(await problemsOf('--ca-file', path, '--kubeconfig', path, '--state-dir', path)).toEqual([]);
  });

  test.each(['/', '/a/../b', '/a//b', '/a:b', '/a/.'])('cannot be %j', async (path) => {
    const problems = await problemsOf('--ca-file', path, '--kubeconfig', path, '--state-dir', path);
    expect(problems).toEqual(
      ['--ca-file', '--kubeconfig', '--state-dir'].map((flag) =>
        expect.stringMatching(new RegExp(`^${flag} \\S+ cannot be mounted: .* Example: ${flag} /`)),
      ),
    );
  });
});
