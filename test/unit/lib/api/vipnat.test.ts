import { test, expect } from '@jest/globals';
import { services } from '../../../../lib/api/service.ts';
import { addressPools } from '../../../../lib/api/vipnat.ts';

test("of annotations only vipnat's own are kept: others may be long, and there may be many", () => {
  const metadata = { name: 'a', namespace: 'apps', uid: 'a', resourceVersion: '1' };
  const annotations = {
    'vipnat.io/share': 'web',
    'lb.zcloud.cn/vip': '10.0.9.10',
    'vipnat.io/of-nobody': 'x',
    example: 'x'.repeat(1000),
  };
  const service = services.schema.parse({ metadata: { ...metadata, annotations }, spec: {} });
  expect(service.metadata.annotations).toEqual({ 'vipnat.io/share': 'web', 'lb.zcloud.cn/vip': '10.0.9.10' });
  const drained = { 'vipnat.io/drained': 'w1', example: 'x' };
  const pool = addressPools.schema.parse({
    metadata: { ...metadata, annotations: drained },
    spec: { addresses: [] },
  });
  expect(pool.metadata.annotations).toEqual({ 'vipnat.io/drained': 'w1' });
  expect(services.schema.parse({ metadata, spec: {} }).metadata.annotations).toBeUndefined();
});
