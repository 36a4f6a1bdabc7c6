import { beforeAll, test, expect } from '@jest/globals';
import { runInNetworkNamespace } from '../../support/network/network-namespace.ts';

let answers: Record<string, string | null>;
beforeAll(async () => {
  const program = new URL('proxy-mode-child.ts', import.meta.url);
  answers = (await runInNetworkNamespace(program)) as typeof answers;
});

test.each<[string, string, string | null]>([
  ['iptables', 'kube-proxy that answers', 'iptables'],
  ['ipv6', 'kube-proxy that listens on the other loopback address, with a newline after its word', 'ipvs'],
  ['nobody', 'no kube-proxy', null],
  ['other', 'something else that listens there', null],
  ['endless', 'an answer that is too long to be one', null],
  ['held', 'kube-proxy that answers a process that is held up for longer than it waits', 'iptables'],
  ['hanging', 'kube-proxy that hangs', null],
  ['aborted', 'kube-proxy that breaks off', null],
])('%s: %s', (name, _who, answer) => {
  expect(answers[name]).toBe(answer);
});
