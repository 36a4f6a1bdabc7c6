import { describe, expect, test } from '@jest/globals';
import { isOwnRule } from '../../../../../lib/netfilter/iptables/identity.ts';
import { parseRule } from '../../../../../lib/netfilter/iptables/rule.ts';

describe('a rule taken apart', () => {
  test('has its options with their values, its comment and its target', () => {
    const rule = parseRule(
      '-d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-X',
    );
    expect(rule).toMatchObject({ target: 'KUBE-SVC-X', comment: 'default/kubernetes:https cluster IP' });
    expect(Object.fromEntries(rule.options)).toMatchObject({
      '-d': '10.96.0.1/32',
      '-p': 'tcp',
      '--dport': '443',
    });
  });

  test('joins the values of an option that has several', () => {
    expect(parseRule('-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT').options.get('--match-set')).toBe(
      'KUBE-CLUSTER-IP dst,dst',
    );
  });

  test('has no target without one, and takes goto for one', () => {
    expect(parseRule('-m comment --comment "counts"').target).toBeNull();
    expect(parseRule('-g VIPNAT').target).toBe('VIPNAT');
  });

  test('a negated option is another option', () => {
    const { options } = parseRule('! -s 10.0.0.0/8 -m conntrack ! --ctstate NEW,INVALID -j DROP');
    expect(options.get('!-s')).toBe('10.0.0.0/8');
    expect(options.has('-s')).toBe(false);
    expect(options.get('!--ctstate')).toBe('NEW,INVALID');
  });

  test('the first of two comments is the comment', () => {
    const text = '-m comment --comment "first" -m comment --comment "second" -j RETURN';
    expect(parseRule(text).comment).toBe('first');
    expect([...parseRule(text).options.values()]).toContain('second');
  });
});

describe('quotes', () => {
  test('hold what looks like options together', () => {
    const rule = parseRule('-m comment --comment "a -j VIPNAT ! --dport 1" -j ACCEPT');
    expect(rule).toMatchObject({ target: 'ACCEPT', comment: 'a -j VIPNAT ! --dport 1' });
    expect(rule.options.has('--dport')).toBe(false);
  });

  test('can be escaped within', () => {
    expect(parseRule(String.raw`-m comment --comment "an \"odd\" \\ one" -j ACCEPT`).comment).toBe(
      'an "odd" \\ one',
    );
  });

  test('make an option of nothing but dashes a value', () => {
    expect(parseRule('-j LOG --log-prefix "-p "').options.get('--log-prefix')).toBe('-p ');
  });

  test('are not needed by a word', () => {
    expect(parseRule('-m comment --comment word -j ACCEPT').comment).toBe('word');
  });
});

test('text that is no rule has no target', () => {
  for (const text of ['', '   ', 'Bad argument', '"', '! ! !']) expect(parseRule(text).target).toBeNull();
});

test('a comment keeps its blanks: one that only looks like ours is a stranger’s', () => {
  const text = '-m comment --comment " vipnat:SVxAs7mKbg1vbIGf" -j RETURN';
  expect(parseRule(text).comment).toBe(' vipnat:SVxAs7mKbg1vbIGf');
  expect(isOwnRule(text)).toBe(false);
});
