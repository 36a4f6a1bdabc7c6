import { makeService } from '../../../support/fakes/service-objects.ts';
import { describe, test, expect } from '@jest/globals';
import { addFinalizers, dropFinalizers } from '../../../../controller/kinds/allocations.ts';
import { finalizer, cleanupFinalizer } from '../../../../lib/api/vipnat.ts';

const withClass = { spec: { loadBalancerClass: 'vipnat.io/lb' } };
const withoutClass = { spec: { loadBalancerClass: null } };

function make(finalizers: readonly string[], more: object): ReturnType<typeof makeService> {
  return makeService('apps/a', { ...more, metadata: { finalizers: [...finalizers] } });
}

describe('the finalizers of a Service', () => {
  test('are vipnat’s alone for a class, and Kubernetes’ too without one', () => {
    expect(addFinalizers(make(['other.io/it'], withClass))).toEqual(['other.io/it', finalizer]);
    expect(addFinalizers(make(['other.io/it'], withoutClass))).toEqual([
      'other.io/it',
      finalizer,
      cleanupFinalizer,
    ]);
  });

  test('are added once', () => {
    expect(addFinalizers(make([finalizer], withoutClass))).toBeNull();
  });

  test('go together', () => {
    const service = make(['other.io/it', finalizer, cleanupFinalizer, 'other.io/its'], withoutClass);
    expect(dropFinalizers(service)).toEqual(['other.io/it', 'other.io/its']);
    expect(dropFinalizers(make(['other.io/it'], withoutClass))).toBeNull();
  });

  test('of another load balancer, which has not cleaned up yet, stay', () => {
    const service = make([cleanupFinalizer], withoutClass);
    const added = addFinalizers(service);
    expect(added).toEqual([cleanupFinalizer, finalizer]);
    expect(dropFinalizers(make(added ?? [], withoutClass))).toEqual([cleanupFinalizer]);
  });
});
