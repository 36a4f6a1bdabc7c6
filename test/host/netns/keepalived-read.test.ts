import { beforeAll, describe, test, expect } from '@jest/globals';
import { runInNetworkNamespace } from '../../support/network/network-namespace.ts';
import { configurations } from './keepalived-configurations.ts';

type Instances = Readonly<Record<string, { readonly vrid: number; readonly priority: number } | null>>;

let outcomes: Readonly<Record<string, { readonly keepalived: Instances; readonly vipnat: Instances }>>;
beforeAll(async () => {
  const child = new URL('keepalived-read-child.ts', import.meta.url);
  outcomes = (await runInNetworkNamespace(child)) as typeof outcomes;
});

describe('a configuration is read as keepalived itself reads it', () => {
  test.each(configurations)('$name', ({ name, addresses }) => {
    const { keepalived, vipnat } = outcomes[name] ?? {};
    expect(Object.keys(keepalived ?? {})).toEqual(addresses);
    expect(vipnat).toEqual(keepalived);
  });

  test('and it is known what that is', () => {
    const found = Object.values(outcomes).flatMap(({ keepalived }) => Object.values(keepalived));
    expect(found).toContainEqual({ vrid: 51, priority: 151 });
    expect(found).toContainEqual({ vrid: 60, priority: 160 });
    expect(found).toContain(null);
  });
});
